"""Compiles one prim_func: numbers its variables and buffers, and plans where each buffer lives.

Compilation happens once for each run; the closures that it yields are then executed for every thread block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

from tilegen.interp.access import ElementAccess
from tilegen.interp.buffer_plan import BufferPlan, make_view, view_of_local
from tilegen.interp.expressions import compile_expression
from tilegen.interp.findings import InvalidKernelError, Site, UnsupportedError
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import Affine, Code
from tilegen.interp.layouts import TileLayout
from tilegen.interp.local_memory import LocalStorage
from tilegen.interp.memory import Storage
from tilegen.interp.number_formats import lanes, storage_dtype
from tilegen.interp.places import Place, place_of
from tilegen.interp.structure import variables_of, walk
from tilegen.interp.vectors import VectorOfLocals

LOCAL_SCOPES = ("local", "local.var")
BARRIER_SCOPES = ("shared.barrier", "shared.cluster_barrier")


def identity(node: Any) -> int:
    """The identity of a TIR object: its address (its Python wrappers come and go)."""
    return int(node.__chandle__())


class Compiler:
    """The tables of one compilation. ``axes`` is the number of lane axes: the threads and the deepest T.Parallel nest.

    ``synchronises``: TileLang inserts barriers between accesses to shared memory (``tl.disable_thread_storage_sync`` is off).
    ``private``: fragments that every thread has for itself (see ``structure.private_fragments``).
    """

    def __init__(self, axes: int, guarded: bool, synchronises: bool, private: frozenset[int] = frozenset()) -> None:
        self.axes = axes
        self._private = private
        self.guarded = guarded
        self.synchronises = synchronises
        self.in_index = False
        self.plans: list[BufferPlan] = []
        self.variable_names: list[str] = []
        #: How many of them are parameters and dimensions: the same in every block.
        self.fixed_variables = 0
        self.threads: tuple[int, int, int] = (1, 1, 1)
        self.kernel = 0
        self.barrier_counts: dict[int, list[Any]] = {}
        self.reducer_kinds: dict[int, str] = {}
        #: Slots of the reducers that were allocated with ``replication=``.
        self.replicated_reducers: set[int] = set()
        self.layouts: list[TileLayout] = []
        self.extent_slots: dict[int, int] = {}
        self._variables: dict[int, int] = {}
        self._constants: dict[int, int] = {}
        self._generator: int | None = None
        self._lanes: dict[int, tuple[int, Affine]] = {}
        self._buffers: dict[int, BufferPlan] = {}
        self._roots: dict[int, BufferPlan] = {}
        self._views: dict[Any, BufferPlan] = {}
        self._locals: set[int] = set()
        self._written: set[int] = set()
        self._thread_variables: set[int] = set()
        self._thread_axes: dict[int, int] = {}
        self.has_threads = False
        self.thread_reducer: Any = None
        #: Whether the kernel now compiled has roles or asynchronous operations, so that the order of accesses matters.
        self.is_concurrent = False
        #: Whether anything in the function is a ``T.print``.
        self.prints = False
        self._loops: list[tuple[str, int]] = []
        self._place: Place | None = None
        self._last_place: Place | None = None
        self._kinds: list[bool] = []
        self._kept: list[Any] = []
        self._inlined: dict[int, Any] = {}
        self._pointers: dict[int, list[BufferPlan]] = {}
        #: Whether memory is named by its address: it is then written in place, by this process alone.
        self.follows_pointers = False
        self._stands_for: Any = None

    barrier_scopes = BARRIER_SCOPES

    def site(self, node: Any) -> Site:
        return Site(node if self._stands_for is None else self._stands_for, tuple(self._loops), self._place)

    @contextmanager
    def at(self, statement: Any) -> Any:
        """Compile a statement, so that findings and refusals can name its line of source."""
        outer, found = self._place, place_of(statement, self._last_place)
        if found is not None:
            self._place = found
            self._last_place = found if found.exact else self._last_place
        try:
            yield
        except UnsupportedError as error:
            error.stands_at(self._place)
            raise
        finally:
            self._place = outer

    @contextmanager
    def in_place_of(self, node: Any) -> Any:
        """Compile what an operation comes down to; findings name the operation itself."""
        outer, self._stands_for = self._stands_for, node
        try:
            yield
        finally:
            self._stands_for = outer

    def expression(self, node: Any, site: Site) -> Code:
        return compile_expression(self, node, site)

    def index_expression(self, node: Any, site: Site) -> Code:
        """An integer that addresses memory or bounds a loop: its overflow is reported."""
        outer, self.in_index = self.in_index, True
        try:
            return self.expression(node, site)
        finally:
            self.in_index = outer

    def new_slot(self, name: str) -> int:
        self.variable_names.append(name)
        return len(self.variable_names) - 1

    def constant_slot(self, value: int) -> int:
        """A slot that holds a constant from the start."""
        if value not in self._constants:
            self._constants[value] = self.new_slot(str(value))
        return self._constants[value]

    def generator_slot(self) -> int:
        """The slot of the random number generator that each thread has."""
        if self._generator is None:
            self._generator = self.new_slot("the random number generator")
        return self._generator

    def initial_environment(self) -> list[Any]:
        """What every slot holds before anything runs: nothing, but for constants."""
        environment: list[Any] = [None] * len(self.variable_names)
        for value, slot in self._constants.items():
            environment[slot] = value
        return environment

    @property
    def vector_axis(self) -> int:
        """The lane axis along which the elements of vectors lie."""
        return self.axes - 1

    def variable_slot(self, variable: Any) -> int:
        key = identity(variable)
        if key not in self._variables:
            self._kept.append(variable)
            self._variables[key] = self.new_slot(str(variable.name))
        return self._variables[key]

    def is_same_in_all_blocks(self, node: Any) -> bool:
        """Whether an expression depends on parameters and dimensions alone."""
        others = []

        def visit(part: Any) -> None:
            kind = type(part).__name__
            if kind in ("BufferLoad", "Call") or (
                kind == "Var" and (not self.knows_variable(part) or self.variable_slot(part) >= self.fixed_variables)
            ):
                others.append(part)

        walk(node, visit)
        return not others

    def uses_unknown_variable(self, node: Any) -> bool:
        """Whether an expression names a variable that nothing has bound yet."""
        unknown = []

        def visit(part: Any) -> None:
            if type(part).__name__ == "Var" and str(part.dtype) != "handle" and not self.knows_variable(part):
                unknown.append(part)

        walk(node, visit)
        return bool(unknown)

    def inline(self, variable: Any, value: Any) -> None:
        """Let a variable stand for an expression that is evaluated where the variable is used."""
        self._kept.append(variable)
        self._inlined[identity(variable)] = value

    def inlined(self, variable: Any) -> Any:
        """The expression that a variable stands for, or None."""
        return self._inlined.get(identity(variable))

    def knows_variable(self, variable: Any) -> bool:
        return identity(variable) in self._variables

    def lane_of(self, variable: Any) -> Affine | None:
        """The affine form of a variable that numbers lanes, else None."""
        found = self._lanes.get(identity(variable))
        return found[1] if found else None

    @contextmanager
    def serial_loop(self, name: str, slot: int) -> Any:
        """Compile the body of a serial loop, so that findings can name the value of its variable."""
        self._loops.append((name, slot))
        try:
            yield
        finally:
            self._loops.pop()

    @contextmanager
    def lane_loop(self, variable: Any, start: Code, parallel: bool) -> Any:
        """Compile the body of a T.Parallel or T.vectorized loop; yields its axis."""
        self._kinds.append(parallel)
        axis = len(self._kinds)
        if axis not in self.extent_slots:
            self.extent_slots[axis] = self.new_slot(f"extent of axis {axis}")
        base = start.as_affine()
        self._lanes[identity(variable)] = (axis, base.plus(Affine(None, 0, ((axis, 1),))))
        try:
            yield axis
        finally:
            self._kinds.pop()

    @property
    def in_parallel(self) -> bool:
        """Whether the code now compiled stands in a T.Parallel loop."""
        return any(self._kinds)

    def active_lanes(self) -> Callable[[Frame], tuple[int, ...]]:
        """The shape of all lanes that execute the operation now compiled.

        Each iteration of a T.Parallel runs once, in whichever thread; anything else runs once in every thread.
        """
        slots = [self.extent_slots[axis] for axis in range(1, len(self._kinds) + 1)]
        every_thread = not any(self._kinds)
        rest = (1,) * (self.axes - 1 - len(slots))

        def shape(frame: Frame) -> tuple[int, ...]:
            threads = int(frame.threads.size) if every_thread else 1
            return (threads, *(frame.environment[slot] for slot in slots), *rest)

        return shape

    @contextmanager
    def reducer(self, reducer: Any) -> Any:
        """Compile code whose reductions between threads join values as ``reducer`` (a ``CommReducer``) says."""
        outer, self.thread_reducer = self.thread_reducer, reducer
        try:
            yield
        finally:
            self.thread_reducer = outer

    def reducer_kind(self, plan: BufferPlan) -> str:
        """How a reducer buffer joins its contributions."""
        return self.reducer_kinds[plan.slot]

    def note_write(self, plan: BufferPlan) -> None:
        """Remember that the code now compiled writes a buffer."""
        plan.origin.written_in.add(self.kernel)
        if self._place not in plan.origin.write_places:
            plan.origin.write_places.append(self._place)
        self._written.add(plan.slot)
        if plan.scope in LOCAL_SCOPES:
            self._written.add(plan.origin.slot)

    @contextmanager
    def buffers_written(self) -> Any:
        """Collects the slots of the buffers that the code compiled meanwhile writes."""
        outer, self._written = self._written, set()
        inner = self._written
        try:
            yield inner
        finally:
            outer |= inner
            self._written = outer

    def is_thread_variable(self, variable: Any) -> bool:
        return identity(variable) in self._thread_variables

    def note_thread_variable(self, variable: Any, axis: int | None = None) -> None:
        """Remember that a variable may differ between threads, or that it is the thread index along ``axis``."""
        self._thread_variables.add(identity(variable))
        if axis is not None:
            self._kept.append(variable)
            self._thread_axes[identity(variable)] = axis
        self.has_threads = True

    def thread_axis(self, variable: Any) -> int | None:
        """The axis whose thread index a variable is, if it is one."""
        return self._thread_axes.get(identity(variable))

    @contextmanager
    def locals_written(self) -> Any:
        """Collects the slots of the per-thread buffers that the code compiled meanwhile writes."""
        outer, self._locals = self._locals, set()
        inner = self._locals
        try:
            yield inner
        finally:
            outer |= inner
            self._locals = outer

    def allocation(self, plans: Sequence[BufferPlan]) -> Callable[[Frame], None]:
        """The step that gives ``plans`` fresh memory when their block is entered."""
        from tilegen.interp.barriers import BarrierArray

        barriers = [plan for plan in plans if plan.scope in BARRIER_SCOPES]
        others = [plan for plan in plans if plan.scope not in BARRIER_SCOPES]

        def run(frame: Frame) -> None:
            for plan in others:
                self.allocate(plan, frame, frame.block.diagnostics)
            for plan in barriers:
                counts = [int(code.run(frame)) for code in self.barrier_counts[plan.slot]]
                frame.memory[plan.slot] = BarrierArray(plan.name, counts)

        return run

    def declare(self, buffer: Any, site: Site) -> BufferPlan:
        """Plan the storage of a buffer that owns its memory (a parameter or an allocation)."""
        key = identity(buffer.data)
        if key in self._roots:
            plan = self._roots[key]
            self._buffers[identity(buffer)] = plan
            return plan
        plan = self._plan(buffer, site)
        self._roots[key] = plan
        self._buffers[identity(buffer)] = plan
        return plan

    def buffer(self, buffer: Any, site: Site) -> BufferPlan:
        """The plan of a buffer that an operation names; a new shape of known memory becomes a view of it."""
        key = identity(buffer)
        if key in self._buffers:
            return self._buffers[key]
        root = self._roots.get(identity(buffer.data))
        if root is None and identity(buffer.data) in self._pointers:
            plan = self._buffers[key] = self._plan(buffer, site)
            self._pointers[identity(buffer.data)].append(plan)
            return plan
        if root is None:
            raise UnsupportedError(
                f"the buffer {buffer.name} in `{site.operation}` is neither a parameter nor allocated"
            )
        shape = tuple(str(extent) for extent in buffer.shape)
        signature = (root.slot, shape, str(buffer.dtype), tuple(str(stride) for stride in buffer.strides))
        if signature not in self._views:
            plan = self._plan(buffer, site)
            plan.root = root
            root.views.append(plan)
            self._views[signature] = plan
        self._buffers[key] = self._views[signature]
        self._kept.append(buffer)
        return self._buffers[key]

    def scope_of(self, buffer: Any) -> str:
        """The scope of a buffer; a fragment that every thread has for itself counts as ``local``."""
        return "local" if identity(buffer.data) in self._private else str(buffer.scope())

    def declare_pointer(self, variable: Any) -> list[BufferPlan]:
        """Let buffers be declared at an address that a variable holds; the list grows as code that names them is compiled."""
        self._kept.append(variable)
        self.follows_pointers = True
        return self._pointers.setdefault(identity(variable), [])

    def root_of(self, data: Any) -> BufferPlan | None:
        """The plan of the memory behind a data variable."""
        return self._roots.get(identity(data))

    def _plan(self, buffer: Any, site: Site) -> BufferPlan:
        self._kept.append(buffer)
        dtype = str(buffer.dtype)
        if str(buffer.scope()) not in BARRIER_SCOPES:
            storage_dtype(dtype)
        plan = BufferPlan(
            name=str(buffer.name),
            dtype=dtype,
            scope=self.scope_of(buffer),
            shape=[self.expression(extent, site) for extent in buffer.shape],
            strides=[self.expression(stride, site) for stride in buffer.strides],
            slot=len(self.plans),
            declared=buffer,
        )
        self.plans.append(plan)
        return plan

    def element(self, buffer: Any, indices: Sequence[Any], site: Site, write: bool = False) -> ElementAccess:
        """The access ``buffer[indices]``."""
        plan = self.buffer(buffer, site)
        if plan.scope in LOCAL_SCOPES:
            self._check_not_by_iteration(plan, indices, site)
        return self.access(plan, [self.index_expression(index, site) for index in indices], site, write)

    def _check_not_by_iteration(self, plan: BufferPlan, indices: Sequence[Any], site: Site) -> None:
        """Refuse per-thread memory that is indexed by the iterations of a T.Parallel, as TileLang does."""
        for variable in (part for index in indices for part in variables_of(index)):
            axis = self._lanes.get(identity(variable), (0, None))[0]
            if axis and axis <= len(self._kinds) and self._kinds[axis - 1]:
                raise InvalidKernelError(
                    f"`{site.operation}` indexes {plan.name} ({plan.scope}), one for each thread, by {variable} of "
                    "a T.Parallel; TileLang refuses that: loop with T.serial, or take T.alloc_fragment"
                )

    def access(self, plan: BufferPlan, indices: Sequence[Code], site: Site, write: bool = False) -> ElementAccess:
        """The access ``plan[indices]`` of indices that are compiled already."""
        if write:
            self.note_write(plan)
        else:
            plan.origin.read_in.add(self.kernel)
        if write and plan.scope in LOCAL_SCOPES:
            self._locals.add(plan.origin.slot)
        width = max((lanes(code.dtype) for code in indices), default=1)
        if width > 1 and plan.scope in LOCAL_SCOPES:
            return VectorOfLocals(self, plan.slot, plan.dtype, indices, site)
        extent_slots = dict(self.extent_slots)
        if width > 1:
            extent_slots[self.vector_axis] = self.constant_slot(width)
        return ElementAccess(plan.slot, indices, site, self.axes, extent_slots, self.guarded)

    def allocate(self, plan: BufferPlan, frame: Frame, tracked: bool) -> None:
        """Give a buffer fresh, unwritten memory in ``frame``, and every view of it too."""
        shape = plan.extents(frame)
        if plan.scope in LOCAL_SCOPES or plan.scope.startswith("local.descriptor"):
            local = LocalStorage(plan.name, plan.dtype, plan.scope, shape, self.axes)
            local.attach(frame.block.watches)
            frame.memory[plan.slot] = local
            for view in plan.views:
                frame.memory[view.slot] = view_of_local(local, view, frame)
            return
        try:
            storage = Storage.poisoned(plan.name, plan.dtype, plan.scope, shape, tracked)
        except (MemoryError, ValueError) as error:  # numpy's, for what is too large
            raise InvalidKernelError(f"no memory for {plan.name}, {shape} of {plan.dtype}: {error}") from error
        storage.safe_value = plan.safe_value
        storage.write_places = plan.write_places
        storage.attach(frame.block.watches)
        frame.memory[plan.slot] = storage
        self.attach_views(plan, frame)

    def attach_views(self, plan: BufferPlan, frame: Frame) -> None:
        """Make the views of a buffer share its memory and its flags."""
        storage = frame.memory[plan.slot]
        if any(storage_dtype(view.dtype).itemsize != storage.data.itemsize for view in plan.views):
            storage.written = None
        for view in plan.views:
            frame.memory[view.slot] = make_view(storage, view, frame)
