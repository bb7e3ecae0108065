"""What the host of a lowered prim_func does: which tensor maps it encodes and which kernels it launches, as plain data.

TileLang lowers a prim_func to device functions and one host function. The host function checks its arguments, encodes a
tensor map for each TMA operand and calls the device functions in order. The checks are the wrapper's own business; what
remains is read here, so that a small C launcher can do the same with nothing but the CUDA driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilegen.aot.c_expression import UnsupportedError, c_text

SCALARS = {"int32": "int32_t", "int64": "int64_t", "float32": "float", "float64": "double"}
ENCODE_TILED = "__tvm_tensormap_create_tiled"
CONTROL_FLOW = ("For", "While", "IfThenElse")


@dataclass(frozen=True)
class Parameter:
    """An argument of the launcher: a tensor (``pointer``), a scalar, or a dim, which the caller reads off a tensor."""

    name: str
    kind: str
    c_type: str
    tensor: int = -1
    """For a dim: which parameter it is an extent of ..."""
    axis: int = -1
    """... and which extent."""
    alignment: int = 1
    """Bytes that the address of a tensor is a multiple of."""

    @property
    def c_name(self) -> str:
        return f"{self.kind[0]}_{self.name}"


@dataclass(frozen=True)
class TensorMap:
    """One call of ``cuTensorMapEncodeTiled``; extents innermost first, all of them C expressions or numbers."""

    name: str
    dtype: int
    rank: int
    address: str
    shape: tuple[str, ...]
    strides: tuple[str, ...]
    """In bytes, of all dimensions but the innermost."""
    box: tuple[str, ...]
    element_strides: tuple[str, ...]
    interleave: int
    swizzle: int
    promotion: int
    fill: int


@dataclass(frozen=True)
class Argument:
    """What a kernel is passed: a tensor map, or a value of a C type."""

    c_type: str
    text: str


@dataclass(frozen=True)
class Kernel:
    """One launch. ``grid`` and ``block`` are C expressions; ``cluster`` is (1, 1, 1) without clusters."""

    name: str
    arguments: tuple[Argument, ...]
    grid: tuple[str, str, str]
    block: tuple[str, str, str]
    shared_bytes: int
    cluster: tuple[int, int, int]
    overlaps: bool
    """Launched with programmatic stream serialisation: it waits for what came before by itself."""


@dataclass(frozen=True)
class Launch:
    """Everything that one call does, in order. Parameters: tensors, then scalars, then dims."""

    parameters: tuple[Parameter, ...]
    tensor_maps: tuple[TensorMap, ...]
    kernels: tuple[Kernel, ...]


def read_launch(prim_func: Any, host_mod: Any, device_mod: Any) -> Launch:
    """The launch of a lowered prim_func. Raises :class:`UnsupportedError` for a host function that does more than this."""
    (host,) = host_mod.functions.values()
    devices = {str(function.attrs["global_symbol"]): function for function in device_mod.functions.values()}
    calls, bound = _calls(host.body, set(devices))
    parameters = _parameters(prim_func)
    names = {parameter.name: f"given->{parameter.c_name}" for parameter in parameters}

    def text(expr: Any) -> str:
        return c_text(expr, names, bound)

    encoded = [call.args[1:] for call in calls if _callee(call) == ENCODE_TILED]
    described = _distinct_names([args[0] for args in encoded])
    maps = tuple(_tensor_map(args, described[args[0]], text) for args in encoded)
    kernels = tuple(
        _kernel(devices[_callee(call)], call.args[1:], described, text) for call in calls if _callee(call) in devices
    )
    return Launch(_used(parameters, maps, kernels), maps, kernels)


def _distinct_names(variables: Sequence[Any]) -> dict[Any, str]:
    """A C name for each variable: its own, and a number behind it where several have it, as with two boxes of a tensor."""
    found: dict[Any, str] = {}
    taken: set[str] = set()
    for variable in variables:
        own = str(variable.name)
        names = (own, *(f"{own}_{number}" for number in range(1, len(variables) + 1)))
        found[variable] = next(name for name in names if name not in taken)
        taken.add(found[variable])
    return found


def _callee(call: Any) -> str:
    return str(call.args[0].value)


def _calls(body: Any, kernels: set[str]) -> tuple[list[Any], dict[Any, Any]]:
    """The packed calls that matter, in order, and the value of every bound variable."""
    from tvm.tirx.stmt_functor import post_order_visit

    found: list[Any] = []
    bound: dict[Any, Any] = {}

    def visit(node: Any) -> None:
        kind = type(node).__name__
        if kind == "Bind":
            bound[node.var] = node.value
        elif kind == "Call" and getattr(node.op, "name", "") == "tirx.tvm_call_packed":
            name = _callee(node)
            if name in kernels or name == ENCODE_TILED:
                found.append(node)
            elif name.startswith("__tvm_tensormap"):
                raise UnsupportedError(f"the host function calls {name}: only tiled tensor maps can be compiled ahead")
        elif kind in CONTROL_FLOW:
            inner = _launched_below(node, kernels)
            if inner:
                raise UnsupportedError(f"the host function launches {', '.join(inner)} under a {kind}")

    post_order_visit(body, visit)
    return found, bound


def _launched_below(node: Any, kernels: set[str]) -> list[str]:
    from tvm.tirx.stmt_functor import post_order_visit

    inner: list[str] = []

    def visit(below: Any) -> None:
        packed = type(below).__name__ == "Call" and getattr(below.op, "name", "") == "tirx.tvm_call_packed"
        if packed and _callee(below) in kernels:
            inner.append(_callee(below))

    post_order_visit(node, visit)
    return inner


def _parameters(prim_func: Any) -> list[Parameter]:
    """The tensors of the prim_func in their order, its scalars, then its dynamic dims as they first appear in a shape."""
    found: list[Parameter] = []
    scalars: list[Parameter] = []
    dims: list[Parameter] = []
    for param in prim_func.params:
        buffer = prim_func.buffer_map.get(param)
        if buffer is None:
            scalars.append(Parameter(str(param.name), "scalar", _scalar(param)))
            continue
        index = len(found)
        found.append(Parameter(str(buffer.name), "pointer", "CUdeviceptr", alignment=_alignment(buffer)))
        for axis, extent in enumerate(buffer.shape):
            if type(extent).__name__ == "Var" and str(extent.name) not in {dim.name for dim in dims}:
                dims.append(Parameter(str(extent.name), "dim", _scalar(extent), index, axis))
    given = {scalar.name for scalar in scalars}
    return [*found, *scalars, *(dim for dim in dims if dim.name not in given)]


def _alignment(buffer: Any) -> int:
    """Rows are read by 16 bytes and by TMA; a list of integers, such as lengths, is read one by one."""
    dtype = str(buffer.dtype)
    return int(dtype.removeprefix("int")) // 8 if len(buffer.shape) == 1 and dtype in ("int32", "int64") else 16


def _scalar(variable: Any) -> str:
    dtype = str(variable.dtype)
    if dtype not in SCALARS:
        raise UnsupportedError(f"`{variable.name}` is {dtype}; a launcher passes {', '.join(SCALARS)}")
    return SCALARS[dtype]


def _tensor_map(args: Any, name: str, text: Any) -> TensorMap:
    """From (handle, dtype, rank, address, shape, strides, box, element strides, interleave, swizzle, promotion, fill)."""
    rank = int(args[2])
    shape, strides, box, steps = (
        tuple(text(value) for value in args[4 + i * rank : 4 + (i + 1) * rank]) for i in range(4)
    )
    interleave, swizzle, promotion, fill = (int(value) for value in args[4 + 4 * rank : 8 + 4 * rank])
    return TensorMap(
        name=name,
        dtype=int(args[1]),
        rank=rank,
        address=text(args[3]),
        shape=shape,
        strides=strides[1:],
        box=box,
        element_strides=steps,
        interleave=interleave,
        swizzle=swizzle,
        promotion=promotion,
        fill=fill,
    )


def _kernel(device: Any, args: Any, described: Mapping[Any, str], text: Any) -> Kernel:
    attrs = device.attrs
    name = str(attrs["global_symbol"])
    if "use_cooperative_groups" in attrs and bool(attrs["use_cooperative_groups"]):
        raise UnsupportedError(f"{name} is a cooperative launch")
    passed, launched = args[: len(device.params)], args[len(device.params) :]
    arguments = tuple(
        _argument(value, param, described, text) for value, param in zip(passed, device.params, strict=True)
    )
    tags = [str(tag) for tag in attrs["tirx.kernel_launch_params"]]
    extents = dict(zip((tag for tag in tags if tag[-2:] in (".x", ".y", ".z")), launched, strict=False))
    values = {tag: text(value) for tag, value in extents.items()}
    cluster = [int(value) for value in attrs["cluster_dims"]] if "cluster_dims" in attrs else []
    return Kernel(
        name=name,
        arguments=arguments,
        grid=_three(values, "blockIdx"),
        block=_three(values, "threadIdx"),
        shared_bytes=int(attrs["dyn_shared_memory_buf"]) if "dyn_shared_memory_buf" in attrs else 0,
        cluster=tuple(cluster + [1] * (3 - len(cluster))),  # type: ignore[arg-type]
        overlaps="has_cuda_pdl_sync" in attrs,
    )


def _argument(value: Any, param: Any, described: Mapping[Any, str], text: Any) -> Argument:
    if type(value).__name__ == "Var" and value in described:
        return Argument("CUtensorMap", described[value])
    dtype = str(param.dtype)
    return Argument("CUdeviceptr" if dtype == "handle" else _scalar(param), text(value))


def _three(values: Mapping[str, str], prefix: str) -> tuple[str, str, str]:
    x, y, z = (values.get(f"{prefix}.{axis}", "1") for axis in "xyz")
    return x, y, z


def _used(
    parameters: list[Parameter], maps: tuple[TensorMap, ...], kernels: tuple[Kernel, ...]
) -> tuple[Parameter, ...]:
    """Every argument of the prim_func, and the dims that something depends on: others need not be passed."""
    texts = [field for entry in maps for field in (entry.address, *entry.shape, *entry.strides)]
    texts += [field for entry in kernels for field in (*entry.grid, *entry.block)]
    texts += [argument.text for entry in kernels for argument in entry.arguments]
    whole = " ".join(texts)
    return tuple(entry for entry in parameters if entry.kind != "dim" or f"{entry.c_name} " in f"{_spaced(whole)} ")


def _spaced(text: str) -> str:
    """Identifiers set off by blanks."""
    return "".join(letter if letter.isalnum() or letter == "_" else f" {letter} " for letter in text)
