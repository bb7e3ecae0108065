"""The tile program of a prim_func as plain values: what was really written, to compare with the plan.

`read_ir` walks the IR before any pass has touched it. It keeps what a plan speaks of (launch, buffers, tile ops, loops,
barriers, in order and nested as written) and prints the rest as text. Sizes are integers where they are known, else
expressions for `extent.extent_equal`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from tilegen.verify.expression import extent_of, plain_of, text_of
from tilegen.verify.extent import Extent

POLICIES = {0: "square", 1: "full_row", 2: "full_col"}


@dataclass(frozen=True)
class BufferIR:
    name: str
    scope: str
    """`global`, `shared.dyn`, `shared`, `local.fragment`, `local`, `shared.barrier`, ..."""
    shape: tuple[Extent, ...]
    dtype: str


@dataclass(frozen=True)
class Region:
    """A box of a buffer: where it starts and how far it reaches, by dimension."""

    buffer: str
    start: tuple[Extent, ...]
    extents: tuple[Extent, ...]


@dataclass(frozen=True)
class Copy:
    kind: str
    """`copy`, `tma_copy` or `async_copy`"""
    src: Region
    dst: Region
    options: Mapping[str, str]


@dataclass(frozen=True)
class Gemm:
    kind: str
    """`gemm`, `wgmma_gemm` or `tcgen05_gemm`"""
    a: Region
    b: Region
    c: Region
    transpose_a: bool
    transpose_b: bool
    m: int
    n: int
    k: int
    policy: str
    clear_accum: bool | str
    options: Mapping[str, str]


@dataclass(frozen=True)
class Reduce:
    kind: str
    """`sum`, `max`, `min`, `abssum`, `absmax`, ..."""
    src: Region
    dst: Region
    dim: int
    clear: bool


@dataclass(frozen=True)
class Fill:
    dst: Region
    value: str


@dataclass(frozen=True)
class Store:
    """One element assigned; in a parallel loop, all of them."""

    buffer: str
    indices: tuple[str, ...]
    value: str


@dataclass(frozen=True)
class Let:
    """A scalar with a name."""

    name: str
    value: str


@dataclass(frozen=True)
class Call:
    """Anything else that is called: barriers, waits, fences, synchronisation."""

    name: str
    args: tuple[str, ...]


@dataclass(frozen=True)
class Parallel:
    """A nest of `T.Parallel` loops, outermost extent first."""

    variables: tuple[str, ...]
    extents: tuple[Extent, ...]
    body: "tuple[Op, ...]"


@dataclass(frozen=True)
class Loop:
    kind: Literal["serial", "pipelined", "unrolled", "vectorized"]
    variable: str
    start: Extent
    extent: Extent
    """Trips."""
    num_stages: int | None
    """None unless pipelined."""
    annotations: Mapping[str, str]
    """What else was asked of the loop, e.g. an explicit order and stage of its statements."""
    body: "tuple[Op, ...]"


@dataclass(frozen=True)
class Branch:
    condition: str
    then: "tuple[Op, ...]"
    otherwise: "tuple[Op, ...]"


Op = Copy | Gemm | Reduce | Fill | Store | Let | Call | Parallel | Loop | Branch


@dataclass(frozen=True)
class KernelIR:
    """One `T.Kernel` of a prim_func."""

    name: str
    """As the device function will be called: `<prim_func>_kernel`, then `_kernel_1`, ..."""
    grid: tuple[Extent, Extent, Extent]
    threads: int
    """As written; warp specialisation adds to it."""
    parameters: tuple[BufferIR, ...]
    buffers: tuple[BufferIR, ...]
    """In order of allocation."""
    barriers: Mapping[str, tuple[int, ...]]
    """Arrivals that each barrier of a barrier buffer waits for."""
    swizzle: tuple[str, int] | None
    """Order and panel of `T.use_swizzle`: ("row", 10)."""
    pass_configs: Mapping[str, str]
    body: tuple[Op, ...] = field(repr=False)

    def buffer(self, name: str) -> BufferIR:
        """The buffer or parameter of this name. Raises KeyError."""
        return {b.name: b for b in (*self.parameters, *self.buffers)}[name]

    def walk(self) -> Iterator[tuple[tuple[Op, ...], Op]]:
        """Every op with the loops, branches and parallel nests around it, outermost first, in order of the code."""
        yield from _walk(self.body, ())

    def ops(self, kind: type[Op]) -> list[Any]:
        """Every op of one class, in order of the code."""
        return [op for _, op in self.walk() if isinstance(op, kind)]


def read_ir(prim_func: Any) -> list[KernelIR]:
    """The kernels of a prim_func, in order of launch. Raises `ValueError` on IR that is no TileLang kernel."""
    name = str(prim_func.attrs["global_symbol"]) if "global_symbol" in prim_func.attrs else "main"
    parameters = tuple(_buffer(prim_func.buffer_map[p]) for p in prim_func.params if p in prim_func.buffer_map)
    configs = {str(k): plain_of(v) for k, v in prim_func.attrs.get("tilelang_pass_configs", {}).items()}
    kernels = [
        _kernel(f"{name}_kernel" + (f"_{i}" if i else ""), nest, parameters, configs)
        for i, nest in enumerate(_launches(prim_func.body))
    ]
    if not kernels:
        raise ValueError(f"{name} launches no kernel: it has no `with T.Kernel(...)`")
    return kernels


def _walk(ops: tuple[Op, ...], around: tuple[Op, ...]) -> Iterator[tuple[tuple[Op, ...], Op]]:
    for op in ops:
        yield around, op
        if isinstance(op, Parallel | Loop):
            yield from _walk(op.body, (*around, op))
        elif isinstance(op, Branch):
            yield from _walk(op.then, (*around, op))
            yield from _walk(op.otherwise, (*around, op))


# --- launch ---------------------------------------------------------------------------------------------------------


def _launches(stmt: Any) -> Iterator[Any]:
    """The outermost loop over block indices of each kernel."""
    kind = type(stmt).__name__
    if kind == "For" and stmt.thread_binding is not None:
        yield stmt
    elif kind == "SeqStmt":
        for part in stmt:
            yield from _launches(part)
    elif kind == "SBlockRealize":
        yield from _launches(stmt.block.body)
    elif kind in ("AttrStmt", "SBlock", "For"):
        yield from _launches(stmt.body)


def _kernel(name: str, nest: Any, parameters: tuple[BufferIR, ...], configs: dict[str, str]) -> KernelIR:
    grid: dict[str, Extent] = {}
    stmt = nest
    while type(stmt).__name__ == "For" and stmt.thread_binding is not None:
        grid[str(stmt.thread_binding.thread_tag)] = extent_of(stmt.extent)
        stmt = stmt.body
    reader = _Reader()
    body = tuple(reader.read(stmt))
    x, y, z = (grid.get(f"blockIdx.{axis}", 1) for axis in "xyz")
    return KernelIR(
        name=name,
        grid=(x, y, z),
        threads=reader.threads,
        parameters=parameters,
        buffers=tuple(reader.buffers),
        barriers=MappingProxyType(reader.barriers),
        swizzle=reader.swizzle,
        pass_configs=MappingProxyType(configs),
        body=body,
    )


class _Reader:
    """Collects what hangs on the root block while the statements are read."""

    def __init__(self) -> None:
        self.threads = 1
        self.buffers: list[BufferIR] = []
        self.barriers: dict[str, tuple[int, ...]] = {}
        self.swizzle: tuple[str, int] | None = None

    def read(self, stmt: Any) -> Iterator[Op]:
        kind = type(stmt).__name__
        if kind == "SeqStmt":
            for part in stmt:
                yield from self.read(part)
        elif kind == "SBlockRealize":
            self._block(stmt.block)
            yield from self.read(stmt.block.body)
        elif kind == "AttrStmt":
            self._attribute(stmt)
            yield from self.read(stmt.body)
        elif kind == "For":
            yield self._loop(stmt)
        elif kind == "While":
            yield Branch(f"while {text_of(stmt.condition)}", tuple(self.read(stmt.body)), ())
        elif kind == "IfThenElse":
            otherwise = tuple(self.read(stmt.else_case)) if stmt.else_case is not None else ()
            yield Branch(text_of(stmt.condition), tuple(self.read(stmt.then_case)), otherwise)
        elif kind == "BufferStore":
            yield Store(str(stmt.buffer.name), tuple(text_of(i) for i in stmt.indices), text_of(stmt.value))
        elif kind == "Bind":
            if "launch_thread_idx" not in text_of(stmt.value):
                yield Let(str(stmt.var.name), text_of(stmt.value))
        elif kind == "Evaluate":
            yield from _evaluated(stmt.value)
        elif kind in ("AllocBuffer", "DeclBuffer"):
            self.buffers.append(_buffer(stmt.buffer))

    def _block(self, block: Any) -> None:
        self.buffers += [_buffer(b) for b in block.alloc_buffers]
        if "tl.launch_threads" in block.annotations:
            for extent in block.annotations["tl.launch_threads"]:
                self.threads *= int(extent)
        for variable, arrivals in block.annotations.get("barrier_init", {}).items():
            self.barriers[str(variable.name)] = tuple(int(a) for a in arrivals)

    def _attribute(self, stmt: Any) -> None:
        if str(stmt.attr_key) == "threadblock_swizzle_pattern":
            function, panel = (plain_of(a) for a in stmt.value.args[:2])
            self.swizzle = ("column" if "Column" in function else "row", int(panel))

    def _loop(self, stmt: Any) -> Op:
        if _FOR_KINDS.get(int(stmt.kind)) == "parallel":
            return self._parallel(stmt)
        annotations = {str(key): value for key, value in stmt.annotations.items()}
        stages = annotations.pop("num_stages", None)
        pipelined = stages is not None or "tl_pipeline_order" in annotations
        kind = "pipelined" if pipelined else _FOR_KINDS.get(int(stmt.kind), "serial")
        return Loop(
            kind=kind,  # type: ignore[arg-type]
            variable=str(stmt.loop_var.name),
            start=extent_of(stmt.min),
            extent=extent_of(stmt.extent),
            num_stages=int(stages) if stages is not None else None,
            annotations=MappingProxyType({key: plain_of(value) for key, value in sorted(annotations.items())}),
            body=tuple(self.read(stmt.body)),
        )

    def _parallel(self, stmt: Any) -> Parallel:
        variables, extents = [], []
        while type(stmt).__name__ == "For" and _FOR_KINDS.get(int(stmt.kind)) == "parallel":
            variables.append(str(stmt.loop_var.name))
            extents.append(extent_of(stmt.extent))
            stmt = stmt.body
        return Parallel(tuple(variables), tuple(extents), tuple(self.read(stmt)))


_FOR_KINDS = {0: "serial", 1: "parallel", 2: "vectorized", 3: "unrolled", 4: "thread"}


# --- tile ops -------------------------------------------------------------------------------------------------------


def _evaluated(value: Any) -> Iterator[Op]:
    if type(value).__name__ != "Call":
        return
    name = str(value.op.name).rsplit(".", 1)[-1]
    reader = _TILE_OPS.get(name)
    yield reader(name, value) if reader else Call(name, tuple(text_of(a) for a in value.args))


def _copy(name: str, call: Any) -> Copy:
    return Copy(name, _region(call.args[0]), _region(call.args[1]), _options(call))


def _gemm(name: str, call: Any) -> Gemm:
    a, b, c, transpose_a, transpose_b, m, n, k, policy, clear = call.args[:10]
    known = getattr(clear, "value", None)
    return Gemm(
        kind=name,
        a=_region(a),
        b=_region(b),
        c=_region(c),
        transpose_a=bool(transpose_a),
        transpose_b=bool(transpose_b),
        m=int(m),
        n=int(n),
        k=int(k),
        policy=POLICIES.get(int(policy), str(policy)),
        clear_accum=bool(known) if known is not None else text_of(clear),
        options=_options(call),
    )


def _reduce(_: str, call: Any) -> Reduce:
    src, dst, kind, dim, clear = call.args[:5]
    return Reduce(plain_of(kind), _region(src), _region(dst), int(dim), bool(clear))


def _fill(_: str, call: Any) -> Fill:
    return Fill(_region(call.args[0]), text_of(call.args[1]))


_TILE_OPS: dict[str, Callable[[str, Any], Op]] = {
    "copy": _copy,
    "tma_copy": _copy,
    "async_copy": _copy,
    "gemm": _gemm,
    "wgmma_gemm": _gemm,
    "tcgen05_gemm": _gemm,
    "reduce": _reduce,
    "fill": _fill,
}


def _region(call: Any) -> Region:
    """From `tl.region(buffer[start, ...], access, extent, ...)`."""
    load, _, *extents = call.args
    start = tuple(extent_of(getattr(i, "base", i)) for i in load.indices)
    return Region(str(load.buffer.name), start, tuple(extent_of(e) for e in extents))


def _options(call: Any) -> Mapping[str, str]:
    return MappingProxyType({str(k): plain_of(v) for k, v in sorted(call.annotations.items())})


def _buffer(buffer: Any) -> BufferIR:
    shape = tuple(extent_of(e) for e in buffer.shape)
    return BufferIR(str(buffer.name), str(buffer.scope()), shape, str(buffer.dtype))
