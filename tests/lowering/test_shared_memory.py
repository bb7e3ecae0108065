import pytest

from tilegen.lowering.shared_memory import (
    SharedBuffer,
    arena,
    at_alignment,
    dynamic_bytes,
    fits,
    gemm_buffers,
    most_stages,
    static_bytes,
    versions,
    workspace_bytes,
)
from tilegen.targets import target

SM90 = target("sm_90a")


def gemm_bytes(m, n, k, stages, staged=0, chip="sm_90a"):
    return dynamic_bytes(gemm_buffers(m, n, k, 2, versions(target(chip), stages), staged))


def test_pipelined_gemm():
    assert gemm_bytes(128, 128, 64, 8) == 262_144
    assert gemm_bytes(128, 256, 64, 3) == 147_456
    assert gemm_bytes(128, 128, 64, 0) == gemm_bytes(128, 128, 64, 1) == 32_768


def test_the_staged_c_tile_reuses_a_and_b():
    assert gemm_bytes(128, 128, 64, 3, staged=2) == 98_304
    assert gemm_bytes(128, 256, 32, 1, staged=2) == 65_536  # 24 KiB of A and B, 64 KiB of C


def test_amd_keeps_one_version_whatever_the_stages():
    assert gemm_bytes(128, 64, 64, 3, chip="gfx942") == 24_576


def mla(block_h, block_n, stages, threads, reduces_across_warps):
    """Q and its rotary part before the loop, the latent and the probabilities in it, the output after it."""
    work = 2 * workspace_bytes(64 if reduces_across_warps else 4, threads)
    return dynamic_bytes(
        [
            SharedBuffer("Q", block_h * 512 * 2, 0, 1),
            SharedBuffer("Q_pe", block_h * 64 * 2, 0, 1),
            SharedBuffer("KV", stages * block_n * 512 * 2, 1, 1),
            SharedBuffer("K_pe", stages * block_n * 64 * 2, 1, 1),
            SharedBuffer("S", block_h * block_n * 2, 1, 1),
            SharedBuffer("workspace", work, 1, 1),
            SharedBuffer("O", block_h * 512 * 2, 2, 2),
        ]
    )


def test_mla_decode_fills_the_block_to_the_last_byte():
    dynamic = mla(64, 64, 2, 256, True)
    assert dynamic == 231_424
    assert fits(SM90, dynamic, static_bytes(8))
    assert not fits(SM90, dynamic + 16, static_bytes(8))


def test_barriers_cost_a_kibibyte():
    assert static_bytes(0) == 0
    assert static_bytes(1) == static_bytes(128) == 1024
    assert static_bytes(129) == 2048


def test_most_stages_leave_room_for_the_barriers():
    assert most_stages(SM90, 32_768, 0, 1024) == 7
    assert most_stages(SM90, 49_152, 0, 1024) == 4
    assert most_stages(SM90, 300_000, 0) == 0


def test_one_buffer_is_not_rounded():
    assert arena([SharedBuffer("a", 100, 0, 3)]).bytes == 100
    assert arena([SharedBuffer("a", 100, 0, 3), SharedBuffer("b", 8, 0, 3)]).bytes == 128  # b at 112, the end rounded


def test_buffers_of_one_statement_never_overlap_and_the_larger_comes_first():
    placed = arena([SharedBuffer("small", 64, 0, 0), SharedBuffer("large", 256, 0, 0)])
    assert placed.offsets == {"large": 0, "small": 256}


def test_a_hole_that_alignment_leaves_is_filled():
    buffers = at_alignment([SharedBuffer("a", 1056, 0, 2), SharedBuffer("b", 1024, 0, 2)], 1024)
    placed = arena([*buffers, SharedBuffer("c", 512, 1, 2)])
    assert placed.offsets == {"a": 0, "b": 2048, "c": 1056}
    assert placed.bytes == 3072


def test_a_tail_that_is_too_small_is_grown():
    buffers = [SharedBuffer("keep", 128, 0, 1), SharedBuffer("gone", 64, 0, 0), SharedBuffer("next", 96, 1, 1)]
    placed = arena(buffers)
    assert placed.offsets["next"] == 128
    assert placed.bytes == 224


@pytest.mark.parametrize(("lanes", "bytes_"), [(4, 0), (32, 0), (64, 1024), (256, 1024)])
def test_a_reduction_inside_a_warp_needs_no_workspace(lanes, bytes_):
    assert workspace_bytes(lanes, 256) == bytes_
