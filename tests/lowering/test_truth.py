"""The lowering model against the compiler: a fixed sample around the boundaries, lowered for real."""

from dataclasses import dataclass

import pytest

from tilegen.lowering.instruction import BITS, GemmPath, GemmRefusal, gemm_path, operand_continuity
from tilegen.lowering.pipeline import double_buffer, pipeline_path, planned_schedule, trip_count_ok
from tilegen.lowering.reduction import row_reduction
from tilegen.lowering.registers import fragment_registers
from tilegen.lowering.shared_memory import (
    SharedBuffer,
    accumulator_workspace_bytes,
    arena,
    at_alignment,
    dynamic_bytes,
    gemm_buffers,
    versions,
)
from tilegen.lowering.tma import TmaCopy, tma_copy
from tilegen.lowering.vector import cp_async_bytes, fragment_vector_bytes
from tilegen.targets import target
from tilegen.verify.facts import LoweringError, LoweringFacts, lower_facts

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class GemmCase:
    chip: str
    m: int
    n: int
    k: int
    threads: int
    policy: str = "square"
    stages: int = 2
    dtype: str = "float16"
    accumulator: str = "float32"
    transpose_a: bool = False
    transpose_b: bool = False
    staged: bool = False
    global_n: int = 4096
    global_k: int = 4096

    def __str__(self) -> str:
        layout = "NT"[self.transpose_a] + "NT"[self.transpose_b]
        return (
            f"{self.chip}-{self.m}x{self.n}x{self.k}-{self.threads}-{self.policy}-{self.dtype}-{layout}-s{self.stages}"
        )


GEMMS = [
    GemmCase("sm_90a", 128, 128, 64, 128),
    GemmCase("sm_90a", 128, 256, 64, 256, stages=3, staged=True),
    GemmCase("sm_90a", 64, 512, 32, 256, "full_col"),
    GemmCase("sm_90a", 32, 128, 64, 128),  # M under 64: mma.sync
    GemmCase("sm_90a", 96, 128, 64, 128),  # no partition
    GemmCase("sm_90a", 48, 64, 64, 192, "full_row"),  # six warps: mma.sync
    GemmCase("sm_90a", 128, 40, 64, 128, transpose_b=True),  # n8
    GemmCase("sm_90a", 128, 40, 64, 128),  # not canonical
    GemmCase("sm_90a", 64, 128, 48, 512, "full_row"),  # the swizzle stops at 32 columns
    GemmCase("sm_90a", 128, 272, 64, 128, transpose_b=True),  # a box of 272 rows
    GemmCase("sm_90a", 128, 320, 64, 256, transpose_b=True),  # splits
    GemmCase("sm_90a", 384, 64, 64, 384, "full_row"),
    GemmCase("sm_90a", 256, 128, 64, 512, "full_col", stages=1),
    GemmCase("sm_90a", 128, 128, 64, 256, global_n=1001, staged=True),  # one load and the store fall back
    GemmCase("sm_90a", 128, 128, 64, 256, global_n=1001, global_k=1001, transpose_b=True),  # all loads fall back
    GemmCase("sm_90a", 128, 128, 64, 128, stages=0),
    GemmCase("sm_90a", 128, 128, 64, 128, transpose_a=True),
    GemmCase("sm_90a", 128, 128, 64, 128, dtype="float8_e4m3fn", transpose_b=True),
    GemmCase("sm_90a", 128, 128, 64, 128, dtype="float8_e4m3fn"),  # B not transposed: mma.sync
    GemmCase("sm_90a", 128, 128, 32, 128, dtype="int8", accumulator="int32", transpose_b=True),
    GemmCase("sm_90a", 128, 128, 24, 128),  # K
    GemmCase("sm_80", 128, 128, 32, 128, stages=3, staged=True),
    GemmCase("sm_80", 48, 64, 16, 192, "full_col"),
    GemmCase("sm_80", 16, 32, 64, 256),  # eight warps on one row of two
    GemmCase("sm_89", 64, 64, 64, 128, dtype="float8_e4m3fn", transpose_b=True),
    GemmCase("sm_100a", 128, 128, 64, 128, staged=True),
    GemmCase("sm_120a", 64, 96, 32, 128, "full_row"),
    GemmCase("gfx942", 128, 64, 32, 256, stages=3, staged=True),
    GemmCase("gfx942", 128, 24, 32, 256),
]


@pytest.mark.parametrize("case", GEMMS, ids=str)
def test_a_gemm_becomes_what_the_model_says(kernels, case: GemmCase):
    chip = target(case.chip)
    itemsize = BITS[case.dtype] // 8
    path = gemm_path(
        chip,
        case.m,
        case.n,
        case.k,
        case.threads,
        case.policy,
        case.dtype,
        case.accumulator,
        transpose_a=case.transpose_a,
        transpose_b=case.transpose_b,
    )
    loads = [_load(case, path, "A", itemsize), _load(case, path, "B", itemsize)]
    pipeline = pipeline_path(chip, case.threads, case.stages, loads)
    stops = isinstance(path, GemmRefusal) or (
        pipeline.warp_specialised and any(load.outcome == "refused" for load in loads)
    )
    if stops:
        with pytest.raises(LoweringError):
            _lower_gemm(kernels, case)
        return

    assert isinstance(path, GemmPath)
    facts = _lower_gemm(kernels, case)
    kernel = facts.kernels[0]
    instruction = "mma" if path.instruction == "mma.sync" else path.instruction
    shape = f"m{64 if instruction == 'wgmma' else 16}n{path.n}k{path.k}"
    assert (kernel.count(instruction) > 0, kernel.shapes) == (True, (shape,))

    assert kernel.threads == pipeline.launch_threads
    assert (kernel.setmaxnreg or None) == pipeline.reallocated
    assert (kernel.barriers > 0) == pipeline.warp_specialised
    for name, load in zip(("A_desc", "B_desc"), loads, strict=True):
        assert _map(facts, name) == (_planned(load) if pipeline.warp_specialised else None)

    staged = _staged_itemsize(case)
    buffers = gemm_buffers(case.m, case.n, case.k, itemsize, pipeline.buffer_versions, staged)
    assert kernel.dynamic_bytes == dynamic_bytes(buffers)
    if staged:
        store = tma_copy(case.m, case.n, staged, chip.tma, "store", row_stride=case.global_n)
        assert _map(facts, "C_desc") == _planned(store)
    held = fragment_registers(case.m * case.n, case.threads, 4)
    assert kernel.local_elements["acc"] == held


def _lower_gemm(kernels, case: GemmCase) -> LoweringFacts:
    prim_func = kernels.gemm(
        case.m,
        case.n,
        case.k,
        case.threads,
        case.policy,
        stages=case.stages,
        dtype=case.dtype,
        accumulator=case.accumulator,
        transpose_a=case.transpose_a,
        transpose_b=case.transpose_b,
        staged=case.staged,
        n=case.global_n,
        k=case.global_k,
    )
    return lower_facts(prim_func, target(case.chip))


def _load(case: GemmCase, path: GemmPath | GemmRefusal, operand: str, itemsize: int) -> TmaCopy:
    transposed = case.transpose_a if operand == "A" else case.transpose_b
    along_k = transposed == (operand == "B")
    extent = case.m if operand == "A" else case.n
    rows, columns = (extent, case.k) if along_k else (case.k, extent)
    stride = case.global_k if along_k else (4096 if operand == "A" else case.global_n)
    continuity = (
        operand_continuity(path, operand, columns, transposed=transposed) if isinstance(path, GemmPath) else None
    )
    tma = target(case.chip).tma
    return tma_copy(rows, columns, itemsize, tma, "pipelined_load", row_stride=stride, continuity=continuity)


def _staged_itemsize(case: GemmCase) -> int:
    if not case.staged:
        return 0
    return 4 if case.accumulator == "int32" else max(BITS[case.dtype] // 8, 2)


def _planned(copy: TmaCopy) -> tuple[int, int, int] | None:
    return (copy.plan.inner, copy.plan.outer, copy.plan.swizzle_bytes) if copy.plan else None


def _map(facts: LoweringFacts, name: str) -> tuple[int, int, int] | None:
    found = {m.name: m for m in facts.tensor_maps}.get(name)
    return (*found.box, found.swizzle_bytes) if found else None


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "stride"),
    [
        (64, 64, "float16", None),
        (64, 96, "float16", None),
        (64, 512, "float16", None),
        (60, 64, "float16", None),  # rows no multiple of 8: unswizzled
        (60, 512, "float16", None),
        (60, 320, "float16", None),  # a row over 256 that does not divide by it
        (60, 200, "float16", None),
        (257, 64, "float16", None),
        (272, 64, "float16", None),
        (384, 64, "float16", None),
        (64, 12, "float16", None),
        (64, 64, "float16", 1001),
        (64, 64, "float8_e4m3fn", None),
        (64, 24, "float32", None),
    ],
)
def test_an_explicit_tma_copy_is_boxed_as_the_model_says(kernels, rows, columns, dtype, stride):
    chip = target("sm_90a")
    plan = tma_copy(rows, columns, BITS[dtype] // 8, chip.tma, "explicit", row_stride=stride or columns * 4)
    prim_func = kernels.tma_round_trip(rows, columns, dtype, stride)
    if plan.outcome == "refused":
        with pytest.raises(LoweringError):
            lower_facts(prim_func, chip)
        return
    facts = lower_facts(prim_func, chip)
    assert _map(facts, "A_desc") == _planned(plan)
    loops = [line for line in facts.source.splitlines() if "tma_load" in line]
    assert len(loops) == 1
    assert (plan.outcome == "splits") == ("for (int i = 0; i < " in facts.source.split("tma_load")[0])


@pytest.mark.parametrize(
    ("rows", "columns", "stride"), [(64, 64, 4096), (64, 64, 1004), (272, 64, 4096), (64, 12, 4096), (320, 64, 4096)]
)
def test_a_store_uses_tma_when_the_model_says_so(kernels, rows, columns, stride):
    chip = target("sm_90a")
    store = tma_copy(rows, columns, 2, chip.tma, "store", row_stride=stride)
    facts = lower_facts(kernels.store_from_shared(rows, columns, stride), chip)
    assert (facts.kernels[0].count("tma_store") > 0) == (store.plan is not None)
    assert _map(facts, "B_desc") == _planned(store)


@pytest.mark.parametrize(
    ("rows", "columns", "threads"),
    [
        (8, 256, 128),
        (4, 96, 128),
        (8, 96, 128),
        (4, 160, 128),
        (32, 320, 128),
        (1, 1024, 128),
        (1, 160, 128),
        (2, 32, 128),
        (2, 96, 256),
        (192, 96, 128),
        (256, 96, 128),
        (3, 128, 256),
        (3, 96, 96),
        (6, 128, 96),
        (16, 768, 256),
    ],
)
def test_a_row_reduction_is_laid_out_as_the_model_says(kernels, rows, columns, threads):
    chip = target("sm_90a")
    for build, row_loop in ((kernels.row_sum, False), (kernels.rms_norm, True)):
        predicted = row_reduction(rows, columns, threads, 2, row_loop=row_loop)
        if predicted.outcome == "refused":
            with pytest.raises(LoweringError):
                lower_facts(build(rows, columns, threads), chip)
        else:
            kernel = lower_facts(build(rows, columns, threads), chip).kernels[0]
            assert kernel.local_elements["x"] == predicted.elements_per_thread


@pytest.mark.parametrize("name", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize(("rows", "columns"), [(8, 256), (4, 128), (3, 128), (64, 256)])
def test_a_dealt_row_is_read_as_widely_as_the_model_says(kernels, name, rows, columns):
    chip = target(name)
    kernel = lower_facts(kernels.rms_norm(rows, columns, 128), chip).kernels[0]
    assert kernel.global_access_bytes == (fragment_vector_bytes(rows, columns, columns, 2, 128, chip),)


@pytest.mark.parametrize(
    ("rows", "columns", "dtype"),
    [
        (64, 64, "float16"),
        (64, 8, "float16"),
        (64, 4, "float16"),
        (64, 2, "float16"),
        (64, 16, "int8"),
        (64, 4, "float32"),
        (64, 24, "float16"),
    ],
)
def test_a_copy_becomes_cp_async_of_the_width_that_the_model_says(kernels, rows, columns, dtype):
    chip = target("sm_80")
    kernel = lower_facts(kernels.copy_to_shared(rows, columns, 128, dtype), chip).kernels[0]
    width = cp_async_bytes(rows, columns, columns, BITS[dtype] // 8, 128, chip)
    assert kernel.cp_async_bytes == ((width,) if width else ())


@pytest.mark.parametrize(
    ("name", "block_h", "block_n", "stages", "threads"),
    [
        ("sm_90a", 64, 64, 2, 256),
        ("sm_90a", 64, 32, 2, 128),
        ("sm_80", 64, 64, 1, 256),
        ("sm_80", 16, 32, 2, 128),
        ("sm_120a", 16, 32, 2, 128),
    ],
)
def test_shared_memory_of_mla_decode_to_the_byte(kernels, name, block_h, block_n, stages, threads):
    chip = target(name)
    scores = gemm_path(chip, block_h, block_n, 512, threads, "full_col", "float16", "float32", transpose_b=True)
    assert isinstance(scores, GemmPath)
    work = accumulator_workspace_bytes(scores.partition.n, threads)
    copies = versions(chip, stages)
    kernel = lower_facts(kernels.mla_decode(block_h, block_n, stages, threads), chip).kernels[0]
    assert kernel.dynamic_bytes == dynamic_bytes(_mla_buffers(block_h, block_n, copies, work))


def _mla_buffers(block_h: int, block_n: int, copies: int, work: int) -> list[SharedBuffer]:
    before, loop, after = 0, 1, 2
    return [
        SharedBuffer("Q", block_h * 512 * 2, before, loop),
        SharedBuffer("Q_pe", block_h * 64 * 2, before, loop),
        SharedBuffer("KV", copies * block_n * 512 * 2, loop, loop),
        SharedBuffer("K_pe", copies * block_n * 64 * 2, loop, loop),
        SharedBuffer("S", block_h * block_n * 2, loop, loop),
        SharedBuffer("max", work, loop, loop),
        SharedBuffer("sum", work, loop, loop),
        SharedBuffer("O", block_h * 512 * 2, after, after),
    ]


def test_buffers_of_one_phase_make_room_for_those_of_the_next(kernels):
    kernel = lower_facts(kernels.two_phases(branch=False), target("sm_90a")).kernels[0]
    tile, scale, out = (
        SharedBuffer("A_s", 8192, 0, 1),
        SharedBuffer("scale", 96, 2, 5),
        SharedBuffer("B_s", 16_384, 3, 4),
    )
    placed = arena([tile, scale, *at_alignment([out], 1024)])  # B_s is stored from by TMA, swizzled by 128 bytes
    assert (kernel.dynamic_bytes, dict(kernel.shared_offsets)) == (placed.bytes, placed.offsets)


def test_a_branch_over_threads_keeps_all_of_its_buffers_alive(kernels):
    kernel = lower_facts(kernels.two_phases(branch=True), target("sm_90a")).kernels[0]
    tile, scale, out = (
        SharedBuffer("A_s", 8192, 0, 0),
        SharedBuffer("scale", 96, 0, 0),
        SharedBuffer("B_s", 16_384, 0, 0),
    )
    placed = arena([tile, scale, *at_alignment([out], 1024)])
    assert (kernel.dynamic_bytes, dict(kernel.shared_offsets)) == (placed.bytes, placed.offsets)


LAST_USE = {0: 14, 1: 4}
STATEMENTS = 15


def test_a_run_time_context_stops_a_planned_pipeline_of_two_stages_on_ampere(kernels):
    assert not trip_count_ok(planned_schedule(STATEMENTS, LAST_USE, 2), static=False, cp_async=True)
    with pytest.raises(LoweringError, match="Downcast from tirx"):
        lower_facts(kernels.mla_decode(16, 32, 2, 128, dynamic=True), target("sm_80"))


def test_a_double_buffer_takes_a_run_time_context_on_ampere_and_on_hopper(kernels):
    schedule = double_buffer(STATEMENTS, LAST_USE)
    assert trip_count_ok(schedule, static=False, cp_async=True)
    prim_func = kernels.mla_decode(16, 32, 2, 128, dynamic=True, schedule=schedule)
    ampere = lower_facts(prim_func, target("sm_80")).kernels[0]
    assert ampere.count("cp_async") == 4
    assert ampere.dynamic_bytes == dynamic_bytes(_mla_buffers(16, 32, 2, accumulator_workspace_bytes(4, 128)))
    hopper = lower_facts(prim_func, target("sm_90a")).kernels[0]
    assert hopper.count("tma_load") == 4
    assert hopper.setmaxnreg == (24, 240)
