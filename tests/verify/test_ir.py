import pytest

from tilegen.verify.extent import extent_equal
from tilegen.verify.ir import BufferIR, Call, Copy, Fill, Gemm, Let, Loop, Parallel, Reduce, Region, Store, read_ir


@pytest.fixture(scope="module")
def two(kernels):
    return read_ir(kernels.dynamic_gemm_and_norm())


def test_every_launch_is_a_kernel_named_as_the_device_function_will_be(two):
    assert [k.name for k in two] == ["two_kernel", "two_kernel_1"]


def test_launch(two):
    gemm, norm = two
    assert gemm.threads == norm.threads == 128
    assert gemm.grid[0] == 2
    assert extent_equal(gemm.grid[1], "ceildiv(m, 128)")
    assert extent_equal(norm.grid[0], lambda m: -(-m // 4))
    assert not extent_equal(gemm.grid[1], "m // 128")


def test_buffers_and_parameters(two):
    gemm = two[0]
    assert gemm.parameters[0] == BufferIR("A", "global", ("m", "k"), "float16")
    assert gemm.buffers == (
        BufferIR("A_s", "shared.dyn", (128, 64), "float16"),
        BufferIR("B_s", "shared.dyn", (64, 128), "float16"),
        BufferIR("acc", "local.fragment", (128, 128), "float32"),
    )
    assert gemm.buffer("B").shape == ("k", 256)


def test_the_pipelined_loop_and_what_is_in_it(two):
    (loop,) = two[0].ops(Loop)
    assert (loop.kind, loop.num_stages, loop.variable) == ("pipelined", 3, "ko")
    assert extent_equal(loop.extent, "ceildiv(k, 64)")
    assert [type(op) for op in loop.body] == [Copy, Copy, Gemm]
    copy = loop.body[0]
    assert copy.src.buffer == "A"
    assert extent_equal(copy.src.start[1], "ko * 64")
    assert copy.dst == Region("A_s", (0, 0), (128, 64))
    gemm = loop.body[2]
    assert (gemm.m, gemm.n, gemm.k, gemm.policy, gemm.clear_accum) == (128, 128, 64, "full_row", False)
    assert (gemm.transpose_a, gemm.transpose_b) == (False, False)


def test_swizzle_of_the_grid(two):
    assert two[0].swizzle == ("row", 10)
    assert two[1].swizzle is None


def test_epilogue_and_reduction(two):
    gemm, norm = two
    (fill,) = gemm.ops(Fill)
    assert (fill.dst.buffer, fill.value) == ("acc", "0")
    (parallel,) = gemm.ops(Parallel)
    assert parallel.extents == (128, 128)
    assert parallel.body == (Store("acc", ("i", "j"), "max(acc[i, j], 0.0)"),)
    (reduce,) = norm.ops(Reduce)
    assert (reduce.kind, reduce.dim, reduce.clear, reduce.dst.buffer) == ("max", 1, True, "top")


def test_walking_gives_what_stands_around(two):
    around = [outer for outer, op in two[1].walk() if isinstance(op, Store)]
    assert [type(op).__name__ for op in around[0]] == ["Branch", "Parallel"]
    assert around[0][0].condition == "(bx > 0)"


def test_explicit_copies_barriers_and_warp_group_gemms(kernels):
    (kernel,) = read_ir(kernels.explicit_tma())
    assert kernel.barriers == {"ready": (1, 1)}
    assert kernel.buffer("ready").scope == "shared.barrier"
    copies = [op for op in kernel.ops(Copy) if op.kind == "tma_copy"]
    assert [c.options["barrier"] for c in copies] == ["ready[slot]", "ready[slot]"]
    assert copies[0].dst == Region("A_s", ("slot", 0, 0), (1, 128, 64))
    (gemm,) = kernel.ops(Gemm)
    assert (gemm.kind, gemm.transpose_b) == ("wgmma_gemm", True)
    assert kernel.ops(Let) == [Let("slot", "(s % 2)")]
    assert [op.name for op in kernel.ops(Call)] == ["ptx_arrive_barrier", "mbarrier_wait_parity", "wait_wgmma"]


def test_a_prim_func_without_a_launch_is_refused(kernels):
    with pytest.raises(ValueError, match="launches no kernel"):
        read_ir(kernels.not_a_kernel())
