"""What the fragments of a kernel cost in registers, and when they are known to spill.

Exact: the 32-bit registers that the fragments of a thread fill. An estimate: whether ptxas spills, since it also needs
addresses, operands and temporaries. So a rule may only warn, and the measurements it warns from stand below.

A thread may use 255 registers, and no more than its share of the register file under the launch bounds. Where a
warp-specialised block reallocates (`setmaxnreg`), the consumers work with what they are given: 240 with one or two
consumer warp groups, 160 with three.

Source: PTX ISA, setmaxnreg; tilelang src/cuda/transform/annotate_warp_group_reg_alloc.cc; nvcc 13.0 for the figures.
"""

from dataclasses import dataclass

from tilegen.targets import Target

REGISTER_BYTES = 4
REGISTER_GRANULE = 8

STEP_BYTES = 32
"""Of a row of A or a column of B that one mma.sync takes: 16 columns of 16 bits."""

WGMMA_OVERHEAD = 26
"""Registers that a WGMMA needs beside its accumulators. ptxas 13.0 refuses an instruction that does not fit the launch
bounds, and says what it needs: 106 for n160 and 114 for n176 with float32 accumulators (C7602). Spilling also
starts from it: 208 accumulators of 240 registers do not spill, 224 do."""

ROW_OVERHEAD = 16
"""Registers that a row norm needs beside what it holds where it has few."""

FLOAT_ROW_OVERHEAD = 12
"""The same of a row of float32 that is summed as it is, and whose result divides nothing: 108, 116, 232 and 240 registers of
it take 120, 128, 244 and 252."""

DOUBLE_OVERHEAD = 32
"""Registers of a function or a division of float64: a softmax that holds 64 takes 122 of 128."""

CONVERTED_OVERHEAD = 16
"""Registers beside a row that stays converted, for the loads of the result and their addresses. An RMS norm of float16 with
one row of 3,968 columns over 16 lanes holds 248 and spills 19 of 255; with 256 it spills 17 where it loads gamma for the
result. Vectors that were loaded with the row leave as many registers free as they are used up: 252 do not spill."""

CONVERTED_AGAIN = 16
"""Values of a row of bfloat16 that ptxas converts again rather than hold, while the result waits for loads: one integer
instruction makes them. 256 do not spill then, 272 need 262."""

MMA_ADDRESSING = 16
"""Registers that a loop of mma.sync needs beside accumulators, operands and the addresses below, by which it was seen to
spill or not."""

STEP_ADDRESSES = 2
"""Addresses of one K step in shared memory, one of each operand: a swizzle moves them by no constant from step to step. It
repeats after 128 bytes of a row: 192 accumulators of 255 registers spill with 64 columns of float16, not with 32."""

STEPS_OF_A_SWIZZLE = 4
"""K steps after which the addresses repeat: 128 bytes, 32 a step."""

OPERANDS_IN_FLIGHT = 32
"""Registers that the larger operand of mma.sync takes at most: each of its fragments is used up before the next is read.
A warp tile of 16 x 256 with 160 fragment registers does not spill, and would hold 64."""

ADDRESS_REGISTERS = 5
"""Registers of one access of a copy that shares no address with others: 64 bits in global memory, an offset in shared
memory, and its predicate."""

COPY_BATCH = 32
"""Registers of plain copies in flight through a loop of products; ptxas has more where there is room."""

LOAD_BATCH = 64
"""The same of the partial tiles that are added to an accumulator."""


@dataclass(frozen=True)
class SpillMeasurement:
    """One kernel that was compiled, and what ptxas said."""

    kernel: str
    target: str
    threads: int
    """The threads that hold the fragments."""
    warp_specialised: bool
    fragment_registers: int
    """Registers a thread of all fragments that live at once."""
    spilled: bool
    stack_bytes: int


MEASUREMENTS = (
    SpillMeasurement("gemm 128x192", "sm_90a", 128, True, 192, False, 0),
    SpillMeasurement("gemm 192x256", "sm_90a", 256, True, 192, False, 0),
    SpillMeasurement("gemm 128x256", "sm_90a", 256, True, 128, False, 0),
    SpillMeasurement("gemm 128x224", "sm_90a", 128, True, 224, True, 896),
    SpillMeasurement("gemm 128x256", "sm_90a", 128, True, 256, True, 1024),
    SpillMeasurement("gemm 128x256", "sm_90a", 128, False, 256, True, 1024),
    SpillMeasurement("gemm 128x208", "sm_90a", 128, True, 208, False, 0),
    SpillMeasurement("gemm 192x192", "sm_90a", 384, True, 96, False, 0),
    SpillMeasurement("gemm 192x320", "sm_90a", 384, True, 160, True, 640),
    SpillMeasurement("gemm 256x128", "sm_90a", 512, True, 64, False, 0),
    SpillMeasurement("gemm 256x192", "sm_90a", 512, True, 96, True, 368),
    SpillMeasurement("gemm 256x224", "sm_90a", 256, True, 224, True, 448),
    SpillMeasurement("gemm 128x96", "sm_80", 128, False, 96, False, 0),
    SpillMeasurement("gemm 128x192", "sm_80", 128, False, 192, True, 72),
    SpillMeasurement("gemm 128x256", "sm_80", 256, False, 128, False, 0),
    SpillMeasurement("gemm 128x256", "sm_80", 128, False, 256, True, 1272),
    SpillMeasurement("gemm 128x160", "sm_80", 128, False, 160, False, 0),
    SpillMeasurement("gemm 128x160", "sm_80", 256, False, 80, False, 0),
    SpillMeasurement("gemm 256x128", "sm_80", 256, False, 128, False, 0),
    SpillMeasurement("gemm 256x160", "sm_80", 512, False, 80, True, 280),
    SpillMeasurement("gemm 256x192", "sm_80", 512, False, 96, True, 128),
    SpillMeasurement("gemm 256x256", "sm_80", 512, False, 128, True, 760),
    SpillMeasurement("gemm 128x128", "sm_80", 128, False, 128, False, 0),
    SpillMeasurement("attention 128x128 d128", "sm_90a", 128, True, 320, True, 336),
    SpillMeasurement("attention 128x128 d128", "sm_90a", 256, True, 160, False, 0),
    SpillMeasurement("attention 192x128 d128", "sm_90a", 384, True, 160, True, 88),
    SpillMeasurement("attention 128x128 d128", "sm_80", 128, False, 320, True, 888),
    SpillMeasurement("attention 128x128 d128", "sm_80", 256, False, 160, False, 0),
    SpillMeasurement("mla decode 64x64 d512", "sm_90a", 128, True, 288, True, 800),
    SpillMeasurement("mla decode 64x64 d512", "sm_90a", 256, True, 144, False, 0),
    SpillMeasurement("rms norm 16x2048 float16", "sm_90a", 128, False, 128, False, 0),
    SpillMeasurement("rms norm 16x3072 float16", "sm_90a", 128, False, 192, False, 0),
    SpillMeasurement("rms norm 16x4096 float16", "sm_90a", 128, False, 256, True, 768),
    SpillMeasurement("rms norm 1x8192", "sm_90a", 128, False, 128, False, 0),
    SpillMeasurement("rms norm 1x16384", "sm_90a", 128, False, 256, False, 0),
    SpillMeasurement("rms norm 1x32768", "sm_90a", 128, False, 512, True, 120),
)


def fragment_registers(elements: int, threads: int, itemsize: int, replication: int = 1) -> int:
    """Registers a thread of one fragment of so many elements, each held by `replication` threads."""
    held = -(-elements * replication // threads)
    return -(-held * itemsize // REGISTER_BYTES)


def wgmma_registers(n: int, accumulator_bytes: int) -> int:
    """Registers a thread without which ptxas refuses one WGMMA of 64 x `n`."""
    return n * accumulator_bytes // 8 + WGMMA_OVERHEAD


def mma_registers(rows: int, columns: int, depth_bytes: int) -> int:
    """Registers that the product of a warp's tile needs beside its accumulators, with K tiles of so many bytes.

    The operands of a K step, 256 bits a row of A and a column of B, and the addresses that they are read from.
    """
    less, more = (size * STEP_BYTES // (32 * REGISTER_BYTES) for size in sorted((rows, columns)))
    steps = min(max(depth_bytes // STEP_BYTES, 1), STEPS_OF_A_SWIZZLE)
    return less + min(more, OPERANDS_IN_FLIGHT) + MMA_ADDRESSING + steps * STEP_ADDRESSES


def row_overhead(available: int) -> int:
    """Registers that a row norm needs beside what it holds. They grow with the rows that fit, for loads in flight: of 32
    registers 16 hold rows and nothing spills; of 64, 48 spill 16 bytes, 40 do not; of 255, 240 spill and 216 do not.
    """
    return ROW_OVERHEAD + max(available - ROW_OVERHEAD, 0) // 32


def register_budget(target: Target, threads: int, *, warp_specialised: bool) -> int:
    """Registers that a thread holding fragments may use.

    `threads`: those that hold fragments; a warp-specialised block has a producer warp group on top.
    """
    realloc = target.register_reallocation
    producers = realloc.producer_threads if warp_specialised and realloc else 0
    group = target.launch.warp_group_size or target.launch.warp_size
    given = consumer_registers(target, threads // group) if warp_specialised else None
    return given or launch_limit(target, threads + producers)


def launch_limit(target: Target, threads: int) -> int:
    """Registers a thread under launch bounds of so many threads and one block an SM."""
    share = target.registers.per_block // max(threads, 1)
    return min(target.registers.per_thread, share // REGISTER_GRANULE * REGISTER_GRANULE)


def consumer_registers(target: Target, consumer_groups: int, producer_groups: int = 1) -> int | None:
    """Registers that reallocation gives a consumer; None where TileLang skips it for this number of warp groups."""
    if target.register_reallocation is None:
        return None
    layouts = target.register_reallocation.layouts
    return next((given for p, c, _, given in layouts if (p, c) == (producer_groups, consumer_groups)), None)


def reallocation_ok(target: Target, groups: tuple[tuple[int, int], ...]) -> bool:
    """Whether (threads, registers) of each role of a block fit what may be reallocated together."""
    realloc = target.register_reallocation
    if realloc is None:
        return False
    low, high = realloc.hint_range
    within = all(low <= registers <= high and registers % REGISTER_GRANULE == 0 for _, registers in groups)
    return within and sum(threads * registers for threads, registers in groups) <= realloc.budget
