"""Which matrix instruction a gemm gets, and of which shape.

Rule. A fragment accumulator gets WGMMA on sm_90a when M >= 64, the warps are a multiple of 4, B lies in shared memory,
the dtypes stand in the chip's table and K is a multiple of the instruction's; 8-bit operands also need A as it is and
B transposed. Everything else is `mma.sync`, without a word: M = 32, 64 threads, float32 operands (as tf32), and every
fragment accumulator on sm_100a and sm_120a. `tcgen05` needs the accumulator in tensor memory. HIP always uses MFMA.

WGMMA's N is the widest multiple of 16 up to 256 that divides N / n_warp, and gcd(N / n_warp, 256) where that is no
multiple of 16. With B not transposed N / n_warp must be a multiple of 16, or the compiler stops on a failed assertion.
The K of `mma.sync` is 256 bits of operand, or the tile's K where that is less; K must be a multiple of it, and it a
power of two. TileLang does not check that AMD's waves cover the tile: where they do not, layout inference mostly stops,
and columns are left out where it does not, so this model refuses.

Source: tilelang src/cuda/op/gemm.cc, SelectInst; cuda/intrinsics/macro/wgmma_macro_generator.py, select_wgmma_inst_n;
cuda/intrinsics/macro/mma_macro_generator.py; src/tl_templates/cuda/instruction/mma.h; src/rocm/op/gemm.cc.
"""

from dataclasses import dataclass
from math import gcd
from typing import Literal

from tilegen.lowering.partition import WAVE_N, Partition, Policy, covers, warp_partition, wave_partition
from tilegen.targets import Instruction, Target
from tilegen.targets.facts import ByFacts

Stage = Literal["lowering", "nvcc", "run"]

BITS = {
    "float64": 64,
    "float32": 32,
    "float16": 16,
    "bfloat16": 16,
    "int8": 8,
    "uint8": 8,
    "float8_e4m3fn": 8,
    "float8_e5m2": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2fnuz": 8,
}
WGMMA_MIN_M = 64
MMA_OPERAND_BITS = 256


@dataclass(frozen=True)
class GemmPath:
    """The instruction of a gemm and how its warps share the work."""

    instruction: str
    n: int
    """N of one instruction, in elements."""
    k: int
    """K of one instruction, in elements."""
    partition: Partition
    slower_because: str
    """Why it is not the fastest matrix instruction of the chip; empty where it is."""


@dataclass(frozen=True)
class GemmRefusal:
    """Why a gemm becomes nothing that runs."""

    stage: Stage
    """What stops: TileLang, nvcc, or nothing until the kernel runs, and then traps or leaves columns out."""
    rule: str
    """The rule's id, e.g. `D3`."""
    reason: str


_paths: ByFacts[GemmPath | GemmRefusal] = ByFacts()
MOST_PATHS = 65_536


def gemm_path(
    target: Target,
    m: int,
    n: int,
    k: int,
    threads: int,
    policy: Policy,
    operand: str,
    accumulator: str,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    b_in_shared: bool = True,
) -> GemmPath | GemmRefusal:
    """What `T.gemm` with a fragment accumulator of (m, n) and a reduction length of k becomes.

    `threads`: those that run the gemm, without the producer warp group of a warp-specialised block. Ten rules ask of each
    product of each plan, and plans have few different ones: answers are kept.
    """
    global _paths
    if len(_paths) > MOST_PATHS:
        _paths = ByFacts()

    def path(chip: Target) -> GemmPath | GemmRefusal:
        if not chip.takes(operand):
            return GemmRefusal("run", "D11", f"{chip.name} has no matrix instruction for {operand}")
        if not accumulator_ok(chip, operand, accumulator):
            return GemmRefusal("nvcc", "D9", f"{operand} operands have no instruction with a {accumulator} accumulator")
        if chip.kind == "hip":
            return _mfma(chip, m, n, k, threads, policy, operand)
        obstacle = wgmma_obstacle(
            chip, m, k, threads, operand, transpose_a=transpose_a, transpose_b=transpose_b, b_in_shared=b_in_shared
        )
        if obstacle is None:
            return _wgmma(chip, m, n, threads, policy, operand, transpose_b)
        return _mma(chip, m, n, k, threads, policy, operand, accumulator, obstacle)

    asked = m, n, k, threads, policy, operand, accumulator, transpose_a, transpose_b, b_in_shared
    return _paths.of(asked, target, path)


def accumulator_ok(target: Target, operand: str, accumulator: str) -> bool:
    """Whether any matrix instruction of the chip takes these dtypes."""
    return target.multiplies(operand, accumulator)


def wgmma_obstacle(
    target: Target,
    m: int,
    k: int,
    threads: int,
    operand: str,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    b_in_shared: bool = True,
) -> str | None:
    """The first reason why a gemm does not get WGMMA; None where it does, empty where the chip has nothing faster."""
    if not target.has_instruction("wgmma"):
        return (
            "tcgen05 needs the accumulator in tensor memory, not in a fragment"
            if target.has_instruction("tcgen05")
            else ""
        )
    shape = target.instruction("wgmma", operand)
    if shape is None:
        return f"WGMMA takes no {operand} operands in TileLang"
    if m < WGMMA_MIN_M:
        return f"M = {m} is under the {WGMMA_MIN_M} rows of a warp group"
    if threads // target.launch.warp_size % 4:
        return f"{threads} threads are no whole number of warp groups"
    if not b_in_shared:
        return "B does not lie in shared memory"
    if k % shape.k:
        return f"K = {k} is no multiple of {shape.k}"
    if shape.tn_only and (transpose_a or not transpose_b):
        return f"{operand} operands need A not transposed and B transposed"
    return None


def operand_continuity(path: GemmPath, operand: Literal["A", "B"], columns: int, *, transposed: bool) -> int:
    """Elements of a row of a gemm operand in shared memory that its swizzle span must divide.

    `columns`: the row of the operand's buffer. A row along K is taken whole. A row along M or N is what one WGMMA
    instruction covers of it, so that the span never crosses from one instruction into the next.
    """
    along_k = transposed == (operand == "B")
    if path.instruction != "wgmma" or along_k:
        return columns
    return WGMMA_MIN_M if operand == "A" else path.n


def wgmma_n(columns_per_warp: int) -> int:
    """N of the WGMMA instruction for so many columns a warp (N / n_warp)."""
    fallback = gcd(columns_per_warp, 256)
    if columns_per_warp % 16:
        return fallback
    return next((n for n in range(256, fallback, -16) if columns_per_warp % n == 0), fallback)


def _wgmma(
    target: Target, m: int, n: int, threads: int, policy: Policy, operand: str, transpose_b: bool
) -> GemmPath | GemmRefusal:
    warps = threads // target.launch.warp_size
    partition = warp_partition(m, n, warps, policy, wgmma=True)
    if partition is None:
        return _no_partition(m, n, warps)
    columns = n // partition.n
    if not transpose_b and columns % 16:
        reason = f"with B not transposed, {columns} columns a warp are no multiple of 16"
        return GemmRefusal("lowering", "D5", reason)
    shape = target.instruction("wgmma", operand)
    assert shape is not None
    return GemmPath("wgmma", wgmma_n(columns), shape.k, partition, "")


def _mma(
    target: Target, m: int, n: int, k: int, threads: int, policy: Policy, operand: str, accumulator: str, why: str
) -> GemmPath | GemmRefusal:
    warps = threads // target.launch.warp_size
    partition = warp_partition(m, n, warps, policy, wgmma=False)
    if partition is None:
        return _no_partition(m, n, warps)
    shape = target.instruction("mma.sync", operand)
    assert shape is not None
    step = min(MMA_OPERAND_BITS // BITS[operand], k)
    if step & (step - 1):
        return GemmRefusal("lowering", "D8", f"mma.sync has no K of {step}")
    if k % step:
        return GemmRefusal("lowering", "D8", f"K = {k} is no multiple of {step}")
    if step != shape.k and (operand, accumulator, step) not in _SHORT_K:
        return GemmRefusal("nvcc", "D8", f"mma.sync has no K of {step} for {operand}")
    return GemmPath("mma.sync", 8, step, partition, why)


# Shapes below 256 bits of operand that TileLang has a template for: (operand, accumulator, K).
_SHORT_K = {("float16", "float16", 8), ("float16", "float32", 8), ("float32", "float32", 4)}


def _mfma(target: Target, m: int, n: int, k: int, threads: int, policy: Policy, operand: str) -> GemmPath | GemmRefusal:
    shape: Instruction | None = target.instruction("mfma", operand)
    assert shape is not None
    waves = threads // target.launch.warp_size
    if waves < 1:
        return GemmRefusal("lowering", "I1", f"{threads} threads are less than a wave of {target.launch.warp_size}")
    partition = wave_partition(m, n, waves, policy)
    if partition is None:
        return _no_partition(m, n, waves, WAVE_N)
    if not covers(m, n, partition, WAVE_N):
        reason = f"{partition.m} x {partition.n} waves do not cover {m} x {n}"
        return GemmRefusal("run", "I3", reason)
    if k % shape.k:
        return GemmRefusal("lowering", "I2", f"K = {k} is no multiple of {shape.k}")
    return GemmPath("mfma", shape.n_max, shape.k, partition, "")


def _no_partition(m: int, n: int, warps: int, warp_n: int = 8) -> GemmRefusal:
    if m % 16 or n % warp_n:
        return GemmRefusal("lowering", "D4", f"{m} x {n} is no whole number of 16 x {warp_n} tiles")
    return GemmRefusal("lowering", "D3", f"{warps} warps cannot share {m} x {n} evenly under this policy")
