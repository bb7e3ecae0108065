"""TIR expressions compiled to Python closures over a frame.

Integers are exact: where all threads agree they are Python integers, in lanes they are int64 arrays, and a result that does not
fit its TIR dtype is wrapped (and reported where it forms an index). Floats keep their TIR format at every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp import elementwise
from tilegen.interp.access import ElementAccess
from tilegen.interp.findings import Site, UnsupportedError, render
from tilegen.interp.frame import Frame
from tilegen.interp.integers import checked_division, checked_truncation, integer_operation
from tilegen.interp.lanes import Affine, Code, as_scalar, combine_masks, constant, is_lane_array, own
from tilegen.interp.number_formats import (
    Array,
    convert,
    is_float,
    is_integer,
)
from tilegen.interp.vectors import broadcast, ramp, shuffle

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler

#: Compiles a call of one TIR operator to the code of its value.
Intrinsic = Callable[["Compiler", Any, Site], Code]
INTRINSICS: dict[str, Intrinsic] = {}


def intrinsic(*names: str) -> Callable[[Intrinsic], Intrinsic]:
    """Register the compiler of the operators ``names`` (in full, as ``tl.any_sync``)."""

    def register(function: Intrinsic) -> Intrinsic:
        for name in names:
            INTRINSICS[name] = function
        return function

    return register


def compile_expression(compiler: Compiler, node: Any, site: Site) -> Code:
    """The code of a TIR expression; raises ``UnsupportedError`` for a node that the interpreter does not know."""
    kind = type(node).__name__
    handler = _NODES.get(kind)
    if handler is None:
        raise UnsupportedError(f"the interpreter does not know the expression {kind} in `{site.operation}`")
    return handler(compiler, node, site)


def _integer(compiler: Compiler, node: Any, site: Site) -> Code:
    dtype = str(node.dtype)
    value: Any = bool(node.value) if dtype == "bool" else int(node.value)
    return constant(value, dtype)


def _float(compiler: Compiler, node: Any, site: Site) -> Code:
    dtype = str(node.dtype)
    return constant(convert(np.float64(node.value), "float64", dtype), dtype)


def _variable(compiler: Compiler, node: Any, site: Site) -> Code:
    value = compiler.inlined(node)
    if value is not None:
        return compiler.expression(value, site)
    slot = compiler.variable_slot(node)
    return Code(lambda frame: frame.environment[slot], str(node.dtype), affine=compiler.lane_of(node))


def _binary(compiler: Compiler, node: Any, site: Site) -> Code:
    kind = type(node).__name__
    left, right = compiler.expression(node.a, site), compiler.expression(node.b, site)
    dtype = str(node.dtype)
    function = elementwise.binary(kind, dtype)
    if is_float(dtype):
        return folded(lambda frame: function(left.run(frame), right.run(frame)), dtype, left, right)
    if kind in ("Div", "Mod", "FloorDiv", "FloorMod"):
        return folded(checked_division(function, left, right, dtype, site), dtype, left, right)
    run = integer_operation(function, left, right, dtype, site, compiler.in_index)
    return folded(run, dtype, left, right, affine=_affine(kind, left, right))


def _affine(kind: str, left: Code, right: Code) -> Affine | None:
    """Sums and constant multiples of affine integers are affine."""
    a, b = left.as_affine(), right.as_affine()
    if not (a.steps or b.steps):
        return None
    if kind == "Add":
        return a.plus(b)
    if kind == "Sub":
        return a.plus(b.times(-1))
    if kind == "Mul" and isinstance(right.const, int):
        return a.times(right.const)
    if kind == "Mul" and isinstance(left.const, int):
        return b.times(left.const)
    return None


def folded(run: Callable[[Frame], Any], dtype: str, *operands: Code, affine: Affine | None = None) -> Code:
    """Code whose value is computed now if all operands are constants."""
    if all(operand.const is not None for operand in operands):
        with np.errstate(all="ignore"):
            return constant(run(None), dtype)  # type: ignore[arg-type]
    return Code(run, dtype, affine=affine)


def _comparison(compiler: Compiler, node: Any, site: Site) -> Code:
    left, right = compiler.expression(node.a, site), compiler.expression(node.b, site)
    function = elementwise.COMPARISONS[type(node).__name__]
    return folded(lambda frame: as_scalar(function(left.run(frame), right.run(frame))), "bool", left, right)


def _masked(frame: Frame, code: Code, active: Array) -> Any:
    """Evaluate ``code`` in the lanes where ``active`` holds: what it reads elsewhere is not checked."""
    saved = frame.mask
    frame.mask = combine_masks(saved, active)
    try:
        return code.run(frame)
    finally:
        frame.mask = saved


def _and(compiler: Compiler, node: Any, site: Site) -> Code:
    left, right = compiler.expression(node.a, site), compiler.expression(node.b, site)

    def run(frame: Frame) -> Any:
        first = as_scalar(left.run(frame))
        if not isinstance(first, np.ndarray):
            return as_scalar(right.run(frame)) if first else False
        return first & _masked(frame, right, first)

    return folded(run, "bool", left, right)


def _or(compiler: Compiler, node: Any, site: Site) -> Code:
    left, right = compiler.expression(node.a, site), compiler.expression(node.b, site)

    def run(frame: Frame) -> Any:
        first = as_scalar(left.run(frame))
        if not isinstance(first, np.ndarray):
            return True if first else as_scalar(right.run(frame))
        return first | _masked(frame, right, ~first)

    return folded(run, "bool", left, right)


def _not(compiler: Compiler, node: Any, site: Site) -> Code:
    operand = compiler.expression(node.a, site)
    return folded(lambda frame: as_scalar(np.logical_not(operand.run(frame))), "bool", operand)


def select(condition: Code, chosen: Code, other: Code, dtype: str) -> Code:
    """``chosen`` where ``condition`` holds, else ``other``; each is evaluated only in its own lanes."""

    def run(frame: Frame) -> Any:
        flag = as_scalar(condition.run(frame))
        if not is_lane_array(flag):
            return chosen.run(frame) if flag else other.run(frame)
        active = (
            flag if frame.mask is None else np.broadcast_to(flag, np.broadcast_shapes(flag.shape, frame.mask.shape))
        )
        if active.all():
            return chosen.run(frame)
        if not active.any():
            return other.run(frame)
        return np.where(flag, _masked(frame, chosen, flag), _masked(frame, other, ~flag))

    return Code(run, dtype)


def _select(compiler: Compiler, node: Any, site: Site) -> Code:
    condition, chosen, other = (
        compiler.expression(part, site) for part in (node.condition, node.true_value, node.false_value)
    )
    return select(condition, chosen, other, str(node.dtype))


def _cast(compiler: Compiler, node: Any, site: Site) -> Code:
    operand = compiler.expression(node.value, site)
    source, target = operand.dtype, str(node.dtype)
    if node.annotations:
        raise UnsupportedError(f"casts with a rounding mode are not modelled: `{render(node)}`")
    if is_float(source) and is_integer(target):
        return folded(checked_truncation(operand, target, site), target, operand)

    def run(frame: Frame) -> Any:
        return convert(operand.run(frame), source, target)

    keeps_lanes = is_integer(source) and is_integer(target)
    return folded(run, target, operand, affine=operand.affine if keeps_lanes else None)


def _let(compiler: Compiler, node: Any, site: Site) -> Code:
    value = compiler.expression(node.value, site)
    slot = compiler.variable_slot(node.var)
    body = compiler.expression(node.body, site)

    def run(frame: Frame) -> Any:
        frame.environment[slot] = own(value.run(frame))
        return body.run(frame)

    return Code(run, str(node.dtype))


def _load(compiler: Compiler, node: Any, site: Site) -> Code:
    if node.predicate is not None:
        raise UnsupportedError(f"predicated loads are not modelled: `{render(node)}`")
    access = compiler.element(node.buffer, node.indices, site)
    return Code(access.load, str(node.dtype))


def _call(compiler: Compiler, node: Any, site: Site) -> Code:
    name = str(getattr(node.op, "name", node.op))
    handler = INTRINSICS.get(name)
    if handler is not None:
        return handler(compiler, node, site)
    short = name.rsplit(".", 1)[-1]
    if short in elementwise.FLOAT_FUNCTIONS and name.startswith(("tirx.", "tl.")):
        return _float_function(compiler, node, site, short)
    raise UnsupportedError(f"the interpreter does not know the operation {name} in `{site.operation}`")


def _float_function(compiler: Compiler, node: Any, site: Site, name: str) -> Code:
    dtype = str(node.dtype)
    operands = [compiler.expression(argument, site) for argument in node.args]
    if not is_float(dtype):
        if name == "fabs":
            return Code(lambda frame: abs(operands[0].run(frame)), dtype)
        if name in ("round", "floor", "ceil", "trunc", "nearbyint"):
            return operands[0]
        if name == "pow":
            return Code(lambda frame: operands[0].run(frame) ** operands[1].run(frame), dtype)
        raise UnsupportedError(f"{name} of {dtype} is not modelled: `{render(node)}`")
    function = elementwise.in_format(elementwise.FLOAT_FUNCTIONS[name], dtype)
    if len(operands) == 1:
        operand = operands[0]
        return folded(lambda frame: function(operand.run(frame)), dtype, operand)
    return folded(lambda frame: function(*(operand.run(frame) for operand in operands)), dtype, *operands)


def element_access(compiler: Compiler, node: Any, site: Site) -> ElementAccess:
    """The access that a pointer argument names: ``tl.access_ptr(buffer[i], ...)``, ``address_of`` or a plain load."""
    load = pointed_load(compiler, node, site)
    access: ElementAccess = compiler.element(load.buffer, load.indices, site)
    return access


def pointed_load(compiler: Compiler, node: Any, site: Site) -> Any:
    """The ``buffer[indices]`` whose address a pointer argument is."""
    place = node
    while type(place).__name__ == "Call" and place.args and place.op.name != "tirx.tvm_access_ptr":
        place = place.args[0]
    if type(place).__name__ == "Call" and place.op.name == "tirx.tvm_access_ptr":
        return _flat_load(compiler, place, site)
    if type(place).__name__ != "BufferLoad":
        raise UnsupportedError(f"the pointer `{render(node)}` in `{site.operation}` names no buffer element")
    return place


def flat_elements(
    compiler: Compiler, data: Any, offset: Any, count: int, site: Site, write: bool = False
) -> list[ElementAccess]:
    """The accesses to ``count`` elements at an offset from the start of a buffer's memory."""
    from tvm import tirx

    flat = _flat_buffer(compiler, data, None, site)
    return [compiler.element(flat, [tirx.const(0, "int32") + offset + number], site, write) for number in range(count)]


def _flat_buffer(compiler: Compiler, data: Any, dtype: str | None, site: Site) -> Any:
    """The memory behind a data variable as one row of elements."""
    from tvm import tirx

    plan = compiler.root_of(data)
    if plan is None:
        raise UnsupportedError(f"the pointer {data} in `{site.operation}` is neither a parameter nor allocated")
    size = 1
    for extent in plan.declared.shape:
        size = size * extent
    return tirx.decl_buffer((size,), dtype or plan.dtype, plan.name, data=data, scope=plan.scope)


def _flat_load(compiler: Compiler, node: Any, site: Site) -> Any:
    """The element at an offset from the start of a buffer's memory: ``tvm_access_ptr(type, data, offset, extent, mask)``."""
    from tvm import tirx

    flat = _flat_buffer(compiler, node.args[1], str(node.args[0].dtype), site)
    return tirx.BufferLoad(flat, [node.args[2]])


def neighbours(compiler: Compiler, node: Any, count: int, site: Site, write: bool = False) -> list[ElementAccess]:
    """The accesses to ``count`` elements from the one that a pointer argument names, in row-major order.

    From a constant place they run on into the next row; from any other they are those of the last axis.
    """
    load = pointed_load(compiler, node, site)
    starts: list[Any] = [getattr(index, "value", None) for index in load.indices]
    extents: list[Any] = [getattr(extent, "value", None) for extent in load.buffer.shape]
    if None in starts or None in extents:
        places = [[*load.indices[:-1], load.indices[-1] + offset] for offset in range(count)]
    else:
        first = int(np.ravel_multi_index(starts, extents))
        last = min(first + count, int(np.prod(extents)))
        places = [[int(part) for part in np.unravel_index(place, extents)] for place in range(first, last)]
    return [
        compiler.access(
            compiler.buffer(load.buffer, site),
            [
                constant(index, "int32") if isinstance(index, int) else compiler.index_expression(index, site)
                for index in place
            ],
            site,
            write,
        )
        for place in places
    ]


def _string(compiler: Compiler, node: Any, site: Site) -> Code:
    return constant(str(node.value), "handle")


_NODES: dict[str, Callable[[Any, Any, Site], Code]] = {
    "IntImm": _integer,
    "FloatImm": _float,
    "StringImm": _string,
    "Ramp": ramp,
    "Broadcast": broadcast,
    "Shuffle": shuffle,
    "Var": _variable,
    "SizeVar": _variable,
    "Cast": _cast,
    "BufferLoad": _load,
    "Select": _select,
    "Let": _let,
    "Call": _call,
    "And": _and,
    "Or": _or,
    "Not": _not,
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max"), _binary),
    **dict.fromkeys(elementwise.COMPARISONS, _comparison),
}
