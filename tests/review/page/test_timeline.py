"""The pipeline timeline."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.review.page.conftest import main, model, view, with_tiles
from tilegen.review.page.model import page_model
from tilegen.review.page.timeline import Lane, Task, Timeline, timeline
from tilegen.review.page.views import View
from tilegen.spec import load


def drawn(seen: View) -> Timeline:
    found = timeline(*main(seen))
    assert found is not None
    return found


def every() -> list[tuple[str, Timeline]]:
    return [
        (f"{name} {entry.view.id} {kernel.name}", kernel.timeline)
        for name in ("gemm_relu", "mla_decode", "rms_silu")
        for entry in model(name).drawn
        for kernel in entry.kernels
        if kernel.timeline is not None
    ]


def tasks(lane: Lane, label: str) -> dict[int | None, Task]:
    return {task.step: task for task in lane.tasks if task.label == label}


def test_one_product_has_the_tensor_cores_at_a_time_and_a_role_does_one_thing_at_a_time() -> None:
    for name, found in every():
        products = sorted((t.start, t.end) for lane in found.lanes for t in lane.tasks if t.kind == "product")
        for lane in [products, *(sorted((t.start, t.end) for t in lane.tasks) for lane in found.lanes)]:
            for (_, end), (start, _) in itertools.pairwise(lane):
                assert start >= end - 0.002, name


def test_a_stage_is_loaded_again_only_after_its_last_reader() -> None:
    for name, found in every():
        for lane in found.stages:
            ordered = sorted(lane.tasks, key=lambda task: (task.start, task.end))
            assert [task.kind for task in ordered] == ["loading", "full"] * (len(ordered) // 2), name
            for before, after in itertools.pairwise(ordered):
                assert after.start >= before.end - 0.002, name


def test_a_product_waits_for_its_stage() -> None:
    found = drawn(with_tiles("gemm_relu", "sm_80", BLOCK_N=128))
    loaded = {task.step: task.end for lane in found.stages for task in lane.tasks if task.kind == "loading"}
    products = tasks(found.lanes[0], "acc")
    assert set(products) == set(range(6))
    assert all(products[step].start >= loaded[step] for step in products if step is not None)


def test_persistent_has_a_producer_and_two_consumers_that_share_four_stages() -> None:
    found = drawn(with_tiles("gemm_relu", "sm_90a", schedule="persistent", BLOCK_M=128))
    assert [lane.name for lane in found.lanes] == ["consumer, upper rows", "consumer, lower rows", "producer"]
    assert [lane.name for lane in found.stages] == ["stage 0", "stage 1", "stage 2", "stage 3"]
    assert (found.variable, found.steps, found.turns) == ("k", 6, "wave")
    upper, lower = (lane.tasks for lane in found.lanes[:2])
    # Two output tiles are drawn, so that the epilogue of one group can be seen under the products of the other.
    epilogue = next(task for task in upper if task.label == "epilogue")
    assert any(t.kind == "product" and t.start < epilogue.end and t.end > epilogue.start for t in lower)
    # The producer has loaded the first stages of the next tile by then: step 6 is the first of 6 steps a tile.
    assert next(task for task in found.lanes[2].tasks if task.step == 6).start < epilogue.end


def test_group_1_of_the_delayed_schedule_multiplies_during_the_softmax_of_the_next_step() -> None:
    found = drawn(view("mla_decode", "sm_90a-4"))
    group_0, group_1 = found.lanes
    assert (group_0.name, group_1.name) == ("warp group 0", "warp group 1")
    softmax, scores, left = (tasks(group_0, label) for label in ("softmax", "scores", "acc_left"))
    right = tasks(group_1, "acc_middle, acc_right")
    for step in (0, 1, 2):
        # Held back until the scores of the next step are done; then beside that step's softmax, and before its left half.
        assert right[step].start >= scores[step + 1].end
        assert right[step].start < softmax[step + 1].end
        assert right[step].end <= left[step + 1].start + 0.002
    assert {signal.name for signal in found.signals} == {"P_READY", "QK_DONE"}


def test_products_are_as_long_as_their_multiply_adds() -> None:
    group_0 = drawn(view("mla_decode", "sm_90a-3")).lanes[0]
    scores, left = tasks(group_0, "scores")[1], tasks(group_0, "acc_left")[1]
    # 64 x 64 x 576 against 64 x 256 x 64.
    assert (scores.end - scores.start) / (left.end - left.start) == pytest.approx(2.25, abs=0.01)


def test_a_kernel_without_a_loop_is_drawn_as_its_phases() -> None:
    found = drawn(view("rms_silu", "sm_90a-8"))
    assert [(task.kind, task.label) for task in found.lanes[0].tasks] == [
        ("load", "x"),
        ("compute", "sum → rstd"),
        ("store", "y"),
    ]
    assert (found.stages, found.of) == ((), None)


GEMM = """
kernel = "one_stage"
family = "gemm"
[dims]
M = { dynamic = true, max = 4096 }
N = { values = [1024] }
K = { values = [1024] }
[tensors]
a = { shape = "M K", dtype = "float16" }
b = { shape = "K N", dtype = "same_as(a)" }
c = { shape = "M N", dtype = "same_as(a)" }
[compute]
accum = "float32"
c = "relu(acc)"
[tile]
BLOCK_M = 64
BLOCK_N = 64
BLOCK_K = 64
threads = 128
stages = 1
[target.sm_80]
[target.gfx942]
"""


@pytest.mark.parametrize("arch", ["sm_80", "gfx942"])
def test_one_stage_lets_loads_and_products_take_turns(tmp_path: Path, arch: str) -> None:
    path = tmp_path / "one_stage.toml"
    path.write_text(GEMM)
    (entry,) = page_model(load(path), target=arch).drawn
    found = entry.kernels[0].timeline
    assert found is not None
    products = [(task.start, task.end) for task in found.lanes[0].tasks if task.kind == "product"]
    (stage,) = found.stages
    loads = [(task.start, task.end) for task in stage.tasks if task.kind == "loading"]
    assert len(products) == len(loads) == 4
    assert sorted(products + loads) == [span for pair in zip(loads, products, strict=True) for span in pair]
    # cp.async is queued and not waited for by the threads; where there is none, they load themselves.
    assert any(task.kind == "load" for task in found.lanes[0].tasks) == (arch == "gfx942")


def test_no_more_steps_are_drawn_than_there_are() -> None:
    for name, found in every():
        assert found.of is None or found.steps <= found.of, name
