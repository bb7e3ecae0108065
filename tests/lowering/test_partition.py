import pytest

from tilegen.lowering.partition import (
    POLICIES,
    Partition,
    covers,
    legal_warps,
    rows_agree,
    warp_partition,
    wave_partition,
)


@pytest.mark.parametrize(
    ("m", "n", "warps", "policy", "expected"),
    [
        (32, 24, 2, "square", (2, 1)),  # ratios 1/3 and 4/1 against 4/3: (2, 1) is nearer
        (48, 64, 6, "square", (3, 2)),
        (128, 128, 4, "square", (2, 2)),
        (128, 128, 4, "full_row", (4, 1)),
        (128, 128, 4, "full_col", (1, 4)),
        (16, 32, 8, "square", None),  # one row of warps, four columns: 8 warps are too many
        (48, 64, 7, "square", None),
        (40, 64, 4, "square", None),  # 40 rows are no whole number of 16
    ],
)
def test_mma_partition(m, n, warps, policy, expected):
    found = warp_partition(m, n, warps, policy, wgmma=False)
    assert found == (Partition(*expected) if expected else None)


@pytest.mark.parametrize(
    ("m", "n", "warps", "policy", "expected"),
    [
        (128, 128, 4, "square", (4, 1)),
        (128, 256, 8, "square", (4, 2)),
        (64, 512, 8, "full_col", (4, 2)),
        (256, 128, 8, "full_row", (8, 1)),
        (96, 128, 4, "square", None),  # 96 rows are no whole number of 64
        (64, 8, 8, "full_col", None),
        (128, 128, 6, "square", None),  # no whole number of warp groups
    ],
)
def test_wgmma_partition(m, n, warps, policy, expected):
    found = warp_partition(m, n, warps, policy, wgmma=True)
    assert found == (Partition(*expected) if expected else None)


def test_every_partition_covers_its_tile():
    for policy in POLICIES:
        for wgmma in (False, True):
            for m in range(16, 272, 16):
                for n in range(8, 264, 8):
                    for warps in (1, 2, 3, 4, 6, 8, 12, 16):
                        found = warp_partition(m, n, warps, policy, wgmma=wgmma)
                        assert found is None or (found.m * found.n == warps and covers(m, n, found))


def test_policies_pick_the_ends_of_the_same_candidates():
    assert warp_partition(128, 64, 8, "full_row", wgmma=False) == Partition(8, 1)
    assert warp_partition(128, 64, 8, "full_col", wgmma=False) == Partition(1, 8)


def test_three_waves_leave_part_of_the_tile_out_on_amd():
    found = wave_partition(128, 128, 3, "square")
    assert found is not None
    assert not covers(128, 128, found, 16)


@pytest.mark.parametrize(("m", "n", "waves"), [(16, 16, 4), (128, 24, 4), (24, 128, 4), (128, 128, 0)])
def test_waves_that_amd_refuses(m, n, waves):
    assert wave_partition(m, n, waves, "square") is None


def test_warps_that_fit_a_wgmma_tile_of_192_rows():
    assert legal_warps(192, 128, "full_row", wgmma=True, limit=16) == (4, 8, 12, 16)


def test_rows_of_scores_and_values_of_mla():
    scores, values = (warp_partition(64, n, 8, "full_col", wgmma=False) for n in (32, 512))
    assert (scores, values) == (Partition(2, 4), Partition(1, 8))
    assert not rows_agree(scores, values)
    assert rows_agree(values, warp_partition(64, 64, 8, "full_col", wgmma=False))
