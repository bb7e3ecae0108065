"""What a kernel spends on its chip at one shape: tiles, launch, memory, registers, occupancy, instructions."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tilegen.expr import evaluate, is_symbolic
from tilegen.lowering.instruction import GemmPath
from tilegen.lowering.occupancy import occupancy
from tilegen.lowering.registers import launch_limit
from tilegen.plan.build import plan_of
from tilegen.plan.instruction import path_of
from tilegen.plan.model import Copy, Gemm, KernelPlan, Loop, LoopKind, Scope
from tilegen.plan.registers import demands
from tilegen.plan.resources import fragment_registers, shared_bytes, static_shared_bytes

if TYPE_CHECKING:
    from tilegen.plan.model import Buffer, Case, TilePlan
    from tilegen.spec.model import Spec


@dataclass(frozen=True)
class BufferBudget:
    """``shape`` is one stage in elements; ``bytes`` all stages of a shared buffer, ``registers`` those of a fragment in
    each thread that owns it.
    """

    name: str
    scope: str
    shape: tuple[int, ...]
    dtype: str
    stages: int
    bytes: int
    registers: int


@dataclass(frozen=True)
class LaunchBudget:
    """One launch of a plan. ``threads`` counts the producer's; ``registers`` is an estimate of what a computing thread
    needs, None where there is no model for it, and ``register_limit`` what it may have without spilling. ``blocks_per_sm``
    follows from shared memory, threads and that estimate; ``limiter`` says from which.
    """

    name: str
    grid: tuple[int, ...]
    threads: int
    buffers: tuple[BufferBudget, ...]
    shared_bytes: int
    static_bytes: int
    shared_limit: int
    registers: int | None
    register_limit: int
    blocks_per_sm: int
    limiter: str
    stages: tuple[int, ...]
    instructions: tuple[str, ...]
    slower_because: tuple[str, ...]
    copies: str

    @property
    def shared(self) -> tuple[BufferBudget, ...]:
        return tuple(buffer for buffer in self.buffers if buffer.scope == Scope.SHARED.value)


@dataclass(frozen=True)
class Budget:
    """A plan at one shape. ``dtypes`` tells the plan from those of other dtypes; ``where`` is the condition of its case,
    which counts where no earlier one does, empty for the last; ``tiles`` are plain numbers and words.
    """

    kernel: str
    arch: str
    dtypes: str
    where: str
    shape: Mapping[str, int]
    tiles: Mapping[str, Any]
    launches: tuple[LaunchBudget, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def budget(spec: Spec, arch: str, dtypes: Mapping[str, str], case: Case, shape: Mapping[str, int]) -> Budget:
    """What ``case`` costs at ``shape``, a value for every dim."""
    plan = plan_of(spec, arch, dtypes, case)
    known = {**shape, "sm_count": plan.target.part.sm_count}
    return Budget(
        spec.kernel,
        arch,
        dtype_words(spec, dtypes),
        condition_words(case.guard),
        dict(shape),
        {name: plain_value(value, known) for name, value in plan.tiles.items()},
        tuple(launch_budget(plan, kernel, known) for kernel in plan.kernels),
    )


def dtype_words(spec: Spec, dtypes: Mapping[str, str]) -> str:
    """The dtypes that tell one binding from another: of the tensors that have a choice, else of the first."""
    free = [tensor.name for tensor in spec.tensors if len(tensor.dtypes or ()) > 1]
    return ", ".join(dict.fromkeys(dtypes[name] for name in free or [spec.tensors[0].name]))


def condition_words(condition: Any) -> str:
    from tilegen.expr import to_text

    return "" if condition is True else to_text(condition)


def plain_value(value: Any, known: Mapping[str, int]) -> Any:
    """A tile value as a number, a word or a small text; one that asks for what is not known is left as text."""
    if is_symbolic(value):
        try:
            return int(evaluate(value, known))
        except (KeyError, ValueError, TypeError):
            from tilegen.expr import to_text

            return to_text(value)
    if hasattr(value, "panel"):
        return f"panels of {value.panel} by {value.order}"
    return value


def launch_budget(plan: TilePlan, kernel: KernelPlan, known: Mapping[str, int]) -> LaunchBudget:
    """What one launch costs where the dims and ``sm_count`` have the sizes ``known``. KeyError or ZeroDivisionError where one
    has none.
    """

    def at(size: Any) -> int:
        return int(evaluate(size, known)) if is_symbolic(size) else int(size)

    threads = at(kernel.launch.block_threads)
    dynamic, static = at(shared_bytes(kernel, plan.target)), at(static_shared_bytes(kernel))
    paths = _paths(plan, kernel, at)
    registers, limit = _registers(plan, kernel, at)
    resident = occupancy(
        plan.target,
        threads=threads,
        shared_bytes=dynamic + static,
        registers=min(registers or 0, launch_limit(plan.target, threads)),
    )
    return LaunchBudget(
        kernel.name,
        tuple(at(extent) for extent in kernel.launch.grid),
        threads,
        tuple(
            _buffer(kernel, buffer, at) for buffer in kernel.buffers if buffer.scope in (Scope.SHARED, Scope.FRAGMENT)
        ),
        dynamic,
        static,
        plan.target.shared_memory.per_block,
        registers,
        limit,
        resident.blocks_per_sm,
        resident.limiter,
        tuple(at(loop.stages) for loop, _ in kernel.find(Loop) if loop.kind is LoopKind.PIPELINED),
        tuple(dict.fromkeys(f"{path.instruction} n{path.n} k{path.k}" for _, path in paths)),
        tuple(dict.fromkeys(path.slower_because for _, path in paths if path.slower_because)),
        _copies(plan, kernel, at),
    )


def _buffer(kernel: KernelPlan, buffer: Buffer, at: Any) -> BufferBudget:
    shared = buffer.scope is Scope.SHARED
    return BufferBudget(
        buffer.name,
        buffer.scope.value,
        tuple(at(extent) for extent in buffer.shape),
        buffer.dtype,
        at(buffer.stages),
        at(buffer.nbytes) if shared else 0,
        0 if shared else at(fragment_registers(kernel, buffer)) * at(buffer.count),
    )


def _paths(plan: TilePlan, kernel: KernelPlan, at: Any) -> list[tuple[Gemm, GemmPath]]:
    """Each gemm with its instruction; one that TileLang refuses has none, and a rule says so."""
    found = []
    for gemm, _ in kernel.find(Gemm):
        path = path_of(plan.target, kernel, gemm, at)
        if isinstance(path, GemmPath):
            found.append((gemm, path))
    return found


def _registers(plan: TilePlan, kernel: KernelPlan, at: Any) -> tuple[int | None, int]:
    """Registers that a computing thread needs, as rules D16 and F9 reckon them, and those it may have."""
    found = [(at(demand.needed), demand.available) for demand in demands(plan, kernel, at)]
    if not found:
        return None, launch_limit(plan.target, at(kernel.launch.block_threads))
    return max(found, key=lambda pair: pair[0] - pair[1])


def _copies(plan: TilePlan, kernel: KernelPlan, at: Any) -> str:
    """How tiles come into shared memory: by TMA, by cp.async, or by plain loads; empty where none do."""
    loads = [
        (copy, loops)
        for copy, loops in kernel.find(Copy)
        if kernel.buffer(copy.src).scope is Scope.GLOBAL and kernel.buffer(copy.dst).scope is Scope.SHARED
    ]
    if not loads:
        return ""
    words = []
    for copy, loops in loads:
        pipelined = any(loop.kind is LoopKind.PIPELINED for loop in loops)
        words.append(_copy_word(plan, kernel, copy, at, pipelined))
    return ", ".join(dict.fromkeys(words))


def _copy_word(plan: TilePlan, kernel: KernelPlan, copy: Copy, at: Any, pipelined: bool) -> str:
    tma = plan.target.tma
    if tma is not None and (copy.explicit_tma or (pipelined and kernel.launch.producer_threads != 0)):
        pitch = None if copy.row_pitch is None else at(copy.row_pitch) * kernel.buffer(copy.src).itemsize
        if pitch is None or pitch % tma.stride_bytes_multiple == 0:
            return "TMA"
    return "cp.async" if pipelined and plan.target.kind == "cuda" else "plain loads"


def cost_of(entry: Budget) -> Hashable:
    """What a budget costs, apart from the names of dtypes and the shapes where it holds."""
    launches = tuple(
        (
            launch_role(entry, launch),
            *(value for name, value in vars(launch).items() if name not in ("name", "buffers")),
        )
        for launch in entry.launches
    )
    buffers = tuple(
        (buffer.name, buffer.scope, buffer.shape, buffer.stages, buffer.bytes, buffer.registers)
        for launch in entry.launches
        for buffer in launch.buffers
    )
    return entry.arch, tuple(sorted((name, str(value)) for name, value in entry.tiles.items())), launches, buffers


def launch_role(entry: Budget, launch: LaunchBudget) -> str:
    """The name of a launch without the kernel's: empty for the kernel itself. It outlives a rename."""
    return launch.name.removeprefix(entry.kernel).strip("_")
