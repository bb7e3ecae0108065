"""The functions that a TIR expression calls by name: of bits, numbers and conditions. Those of floats are in expressions.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp import elementwise
from tilegen.interp.directed_rounding import can_round, rounded
from tilegen.interp.expressions import element_access, folded, intrinsic, select
from tilegen.interp.findings import Site, UnsupportedError, render
from tilegen.interp.frame import Frame
from tilegen.interp.integers import integer_operation
from tilegen.interp.lanes import Code, as_scalar, constant
from tilegen.interp.number_formats import lanes, storage_dtype
from tilegen.interp.vectors import reinterpret_vector

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler


@intrinsic("tirx.if_then_else")
def _if_then_else(compiler: Compiler, node: Any, site: Site) -> Code:
    condition, chosen, other = (compiler.expression(argument, site) for argument in node.args)
    return select(condition, chosen, other, str(node.dtype))


@intrinsic("tirx.likely", "tirx.tvm_thread_invariant")
def _transparent(compiler: Compiler, node: Any, site: Site) -> Code:
    return compiler.expression(node.args[0], site)


@intrinsic("tl.__ldg")
def _read_only_load(compiler: Compiler, node: Any, site: Site) -> Code:
    return Code(element_access(compiler, node.args[0], site).load, str(node.dtype))


@intrinsic("tl.infinity")
def _infinity(compiler: Compiler, node: Any, site: Site) -> Code:
    return constant(storage_dtype(str(node.dtype)).type(np.inf), str(node.dtype))


@intrinsic("tl.clamp")
def _clamp(compiler: Compiler, node: Any, site: Site) -> Code:
    value, low, high = (compiler.expression(argument, site) for argument in node.args)
    dtype = str(node.dtype)

    def run(frame: Frame) -> Any:
        return np.minimum(np.maximum(value.run(frame), low.run(frame)), high.run(frame))

    return Code(run, dtype)


@intrinsic("tirx.isnan", "tirx.isinf", "tirx.isfinite")
def _predicate(compiler: Compiler, node: Any, site: Site) -> Code:
    function = elementwise.PREDICATES[node.op.name.rsplit(".", 1)[-1]]
    operand = compiler.expression(node.args[0], site)
    return Code(lambda frame: as_scalar(function(operand.run(frame))), "bool")


@intrinsic(*(f"tl.{name}" for name in elementwise.ROUNDED_FUNCTIONS))
def _rounded(compiler: Compiler, node: Any, site: Site) -> Code:
    name, mode = node.op.name.rsplit(".", 1)[-1], "rn"
    arguments = list(node.args)
    if type(arguments[-1]).__name__ == "StringImm":
        mode = str(arguments.pop().value)
        if not can_round(name, str(node.dtype), mode):
            raise UnsupportedError(f"rounding mode {mode!r} of {node.dtype} is not modelled: `{render(node)}`")
    operands = [compiler.expression(argument, site) for argument in arguments]
    function = elementwise.in_format(rounded(name, mode, elementwise.ROUNDED_FUNCTIONS[name]), str(node.dtype))
    return Code(lambda frame: function(*(operand.run(frame) for operand in operands)), str(node.dtype))


@intrinsic(*(f"tirx.{name}" for name in elementwise.BITWISE))
def _bitwise(compiler: Compiler, node: Any, site: Site) -> Code:
    function = elementwise.BITWISE[node.op.name.rsplit(".", 1)[-1]]
    left, right = (compiler.expression(argument, site) for argument in node.args)
    dtype = str(node.dtype)
    return folded(integer_operation(function, left, right, dtype, site, compiler.in_index), dtype, left, right)


@intrinsic("tirx.shift_left", "tirx.shift_right")
def _shift(compiler: Compiler, node: Any, site: Site) -> Code:
    function = elementwise.shift_left if node.op.name.endswith("left") else elementwise.shift_right
    left, right = (compiler.expression(argument, site) for argument in node.args)
    dtype = str(node.dtype)
    return folded(integer_operation(function, left, right, dtype, site, compiler.in_index), dtype, left, right)


@intrinsic("tirx.bitwise_not")
def _bitwise_not(compiler: Compiler, node: Any, site: Site) -> Code:
    operand = compiler.expression(node.args[0], site)
    dtype = str(node.dtype)
    return folded(lambda frame: as_scalar(elementwise.bitwise_not(operand.run(frame), dtype)), dtype, operand)


@intrinsic("tirx.popcount")
def _popcount(compiler: Compiler, node: Any, site: Site) -> Code:
    operand = compiler.expression(node.args[0], site)
    return Code(lambda frame: as_scalar(elementwise.popcount(operand.run(frame), operand.dtype)), str(node.dtype))


@intrinsic("tirx.clz")
def _leading_zeros(compiler: Compiler, node: Any, site: Site) -> Code:
    operand = compiler.expression(node.args[0], site)
    return Code(lambda frame: as_scalar(elementwise.leading_zeros(operand.run(frame), operand.dtype)), str(node.dtype))


@intrinsic("tl.__ffs")
def _find_first_set(compiler: Compiler, node: Any, site: Site) -> Code:
    operand = compiler.expression(node.args[0], site)
    return Code(lambda frame: as_scalar(elementwise.find_first_set(operand.run(frame))), str(node.dtype))


@intrinsic("tirx.reinterpret")
def _reinterpret(compiler: Compiler, node: Any, site: Site) -> Code:
    operand = compiler.expression(node.args[0], site)
    source, target = operand.dtype, str(node.dtype)
    if lanes(source) != lanes(target) or storage_dtype(source).itemsize != storage_dtype(target).itemsize:
        return reinterpret_vector(compiler, operand, target, site)

    def run(frame: Frame) -> Any:
        value = operand.run(frame)
        bits = np.ascontiguousarray(np.asarray(value).astype(storage_dtype(source))).view(storage_dtype(target))
        return bits.reshape(value.shape) if isinstance(value, np.ndarray) else as_scalar(bits.reshape(-1))

    return Code(run, target)


@intrinsic("tl.pow_of_int")
def _power_of_integer(compiler: Compiler, node: Any, site: Site) -> Code:
    base, exponent = (compiler.expression(argument, site) for argument in node.args[-2:])
    dtype = str(node.dtype)
    function = elementwise.in_format(lambda x, y: x**y, dtype)
    return Code(lambda frame: function(base.run(frame), exponent.run(frame)), dtype)
