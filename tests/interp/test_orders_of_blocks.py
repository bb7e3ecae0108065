"""Blocks that wait for each other through global memory, and loops whose trips depend on data: right ones are quiet."""

import numpy as np
import pytest
import tilelang.language as T

from tilegen.interp import run


def in_turns(turn="ascending"):
    """Blocks add to one row in turn: each waits for its ticket."""

    @T.prim_func
    def main(A: T.Tensor((8, 64), "float32"), ticket: T.Tensor((1,), "int32"), S: T.Tensor((64,), "float32")):
        with T.Kernel(8, threads=64) as b:
            tx = T.get_thread_binding()
            if tx == 0:
                if turn != "none":
                    while T.atomic_load(ticket[0], "acquire") != (b if turn == "ascending" else 7 - b):
                        T.evaluate(0)
            T.sync_threads()
            S[tx] = S[tx] + A[b, tx]
            T.sync_threads()
            if tx == 0:
                if turn != "none":
                    T.atomic_add(ticket[0], 1, memory_order="release")

    return main


def ragged():
    """A pipelined loop over as many rows as each block is told."""

    @T.prim_func
    def main(A: T.Tensor((3, 64, 16), "float32"), rows: T.Tensor((3,), "int32"), B: T.Tensor((3, 16), "float32")):
        with T.Kernel(3, threads=32) as b:
            tile = T.alloc_fragment((8, 16), "float32")
            total = T.alloc_fragment((16,), "float32")
            T.clear(total)
            for k in T.Pipelined(T.ceildiv(rows[b], 8), num_stages=3):
                T.copy(A[b, k * 8 : k * 8 + 8, 0:16], tile)
                for i, j in T.Parallel(8, 16):
                    tile[i, j] = T.if_then_else(k * 8 + i < rows[b], tile[i, j], 0)
                T.reduce_sum(tile, total, dim=0, clear=False)
            T.copy(total, B[b, 0:16])

    return main


def turns(normal):
    return {"A": normal(8, 64), "ticket": np.zeros(1, np.int32), "S": np.zeros(64, np.float32)}


def test_blocks_that_take_turns_overwrite_each_other_in_order(normal):
    inputs = turns(normal)
    result = run(in_turns(), inputs)
    assert result.findings == []
    assert np.allclose(result.outputs["S"], inputs["A"].sum(0), atol=1e-5)


def test_without_the_ticket_the_blocks_race(normal):
    kinds = {finding.kind for finding in run(in_turns("none"), turns(normal)).errors}
    assert kinds == {"block-race"}


def test_a_block_that_spins_for_a_later_one_is_a_deadlock_at_once(normal):
    found = run(in_turns("descending"), turns(normal)).errors
    assert found[0].kind == "deadlock"
    assert "changes nothing and waits for what no block before this one writes" in found[0].message


@pytest.mark.parametrize("rows", [[0, 5, 64], [1, 1, 1]])
def test_a_trip_count_that_depends_on_data_is_no_matter_of_stages(normal, rows):
    inputs = {"A": normal(3, 64, 16), "rows": np.array(rows, np.int32)}
    result = run(ragged(), inputs)
    assert result.findings == []
    expected = [inputs["A"][b, :count].sum(0) for b, count in enumerate(rows)]
    assert np.allclose(result.outputs["B"], expected, atol=1e-5)


def summed_by_the_last(fault=False):
    """Each block writes a row and counts itself; the last one to come adds up all rows."""

    @T.prim_func
    def main(
        A: T.Tensor((8, 64), "float32"),
        done: T.Tensor((1,), "int32"),
        rows: T.Tensor((8, 64), "float32"),
        S: T.Tensor((64,), "float32"),
    ):
        with T.Kernel(8, threads=64) as b:
            tx = T.get_thread_binding()
            before = T.alloc_shared((1,), "int32")
            rows[b, tx] = A[b, tx]
            if not fault:
                T.sync_threads()
            if tx == 0:
                before[0] = T.atomic_add(done[0], 1, return_prev=True)
            T.sync_threads()
            if before[0] == 7:
                total = T.alloc_var("float32", init=0)
                for row in T.serial(8):
                    total += rows[row, tx]
                S[tx] = total

    return main


def test_a_counter_orders_what_its_thread_met_the_others_about(normal):
    inputs = {"A": normal(8, 64), "done": np.zeros(1, np.int32)}
    result = run(summed_by_the_last(), inputs)
    assert result.findings == []
    assert np.allclose(result.outputs["S"], inputs["A"].sum(0), atol=1e-5)
    (found,) = run(summed_by_the_last(fault=True), inputs).errors
    assert found.kind == "block-race"
    assert "a flag set by one thread covers what the others wrote only if they met at a barrier" in found.message
