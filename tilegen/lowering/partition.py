"""How the warps of a block share a gemm's accumulator.

Rule. The candidates are the grids of warps (m, n) with m * n = warps whose warps own whole instruction tiles: M a
multiple of 16 m, N a multiple of 8 n (16 n on AMD). WGMMA also wants m to be a multiple of 4, for a warp group
stacks its four warps along M. `full_row` takes the largest m, `full_col` the largest n, `square` the one whose ratio
(M / 16 m) / (N / 8 n) lies closest to M / N, in single precision, the smallest m winning a tie. No candidate: the
compiler refuses.

AMD's version differs: `full_row` and `full_col` clamp to what fits and do not look for another candidate, and nothing
checks that the result covers the tile.

Source: tilelang src/cuda/op/gemm.cc, ComputeDefaultWarpPartition and ComputeWgmmaWarpPartition; src/rocm/op/gemm.cc.
The public `T.GemmWarpPolicy.compute_warp_partition` of Python is another function and gives other answers.
"""

import struct
from dataclasses import dataclass
from typing import Literal

Policy = Literal["square", "full_row", "full_col"]
POLICIES: tuple[Policy, ...] = ("square", "full_row", "full_col")

WARP_M = 16
WARP_N = 8
WAVE_N = 16
WARPS_PER_GROUP = 4


@dataclass(frozen=True)
class Partition:
    """A grid of `m` by `n` warps over an accumulator."""

    m: int
    n: int


def warp_partition(m: int, n: int, warps: int, policy: Policy, *, wgmma: bool) -> Partition | None:
    """The grid of warps over an (m, n) accumulator on CUDA; None where the compiler refuses.

    `wgmma` says which instruction the gemm gets: see `instruction.gemm_instruction`.
    """
    group = WARPS_PER_GROUP if wgmma else 1
    if warps < 1 or m % WARP_M or n % WARP_N or warps % group:
        return None
    candidates = [
        Partition(wm, warps // wm)
        for wm in range(group, warps + 1, group)
        if warps % wm == 0 and m % (WARP_M * wm) == 0 and n % (WARP_N * (warps // wm)) == 0
    ]
    if not candidates:
        return None
    if policy == "full_row":
        return candidates[-1]
    if policy == "full_col":
        return candidates[0]
    return min(candidates, key=lambda p: _imbalance(m, n, p, WARP_N))


def wave_partition(m: int, n: int, waves: int, policy: Policy) -> Partition | None:
    """The grid of waves over an (m, n) accumulator on AMD; None where the compiler refuses.

    A grid may be returned that does not cover the tile (3 waves on 128 x 128): see `covers`.
    """
    if waves < 1 or m % WARP_M or n % WAVE_N:
        return None
    wm, wn = 1, 1
    if policy == "full_row":
        wm, wn = (waves, 1) if m % (waves * WARP_M) == 0 else _clamped(m // WARP_M, waves)
    elif policy == "full_col":
        wn, wm = (waves, 1) if n % (waves * WAVE_N) == 0 else _clamped(n // WAVE_N, waves)
    else:
        grids = [Partition(k, waves // k) for k in range(1, min(waves, m // WARP_M) + 1) if waves % k == 0]
        grids = [p for p in grids if n >= WAVE_N * p.n]
        if grids:
            best = min(grids, key=lambda p: _imbalance(m, n, p, WAVE_N))
            wm, wn = best.m, best.n
    return Partition(wm, wn) if wm * wn == waves else None


def covers(m: int, n: int, partition: Partition, warp_n: int = WARP_N) -> bool:
    """Whether every warp owns whole instruction tiles, so that no row or column is left out."""
    return m % (WARP_M * partition.m) == 0 and n % (warp_n * partition.n) == 0


def rows_agree(*partitions: Partition) -> bool:
    """Whether row vectors (a running maximum, a scale) can serve several accumulators of the same rows.

    They take the layout of one accumulator's rows; another whose rows are shared out otherwise is a layout conflict
    ("Layout infer conflict between ... in T.Parallel loop"), for instance 64 x 32 and 64 x 512 by 8 warps, `full_col`.
    """
    return len({p.m for p in partitions}) <= 1


def legal_warps(m: int, n: int, policy: Policy, *, wgmma: bool, limit: int = 32) -> tuple[int, ...]:
    """The numbers of warps that have a partition for this accumulator."""
    return tuple(w for w in range(1, limit + 1) if warp_partition(m, n, w, policy, wgmma=wgmma))


def _clamped(most: int, waves: int) -> tuple[int, int]:
    return most, max(waves // most, 1)


def _imbalance(m: int, n: int, p: Partition, warp_n: int) -> float:
    rows = _single(_single(m) / (p.m * WARP_M))
    columns = _single(_single(n) / (p.n * warp_n))
    return abs(_single(_single(rows / columns) - _single(_single(m) / n)))


def _single(value: float) -> float:
    """`value` rounded to single precision, as the compiler computes."""
    rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    return rounded
