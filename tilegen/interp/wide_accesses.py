"""Accesses of several elements at once: ``ldg32`` to ``ldg256`` and ``stg32`` to ``stg256``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilegen.interp.expressions import intrinsic, neighbours, pointed_load, select
from tilegen.interp.findings import Site, UnsupportedError
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import Code, constant
from tilegen.interp.number_formats import lanes, scalar_name, storage_dtype
from tilegen.interp.steps import Signal, Step, branch, operation
from tilegen.interp.vectors import element_of, reinterpret_vector, side_by_side

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler

_WIDTHS = (32, 64, 128, 256)


def _elements(compiler: Compiler, pointer: Any, bits: int, site: Site, write: bool = False) -> tuple[list[Any], str]:
    """The accesses to the elements that ``bits`` bits from a pointer hold, and their dtype as a vector."""
    dtype = str(pointed_load(compiler, pointer, site).buffer.dtype)
    width = 8 * storage_dtype(dtype).itemsize
    if bits % width:
        raise UnsupportedError(f"`{site.operation}` accesses {bits} bits of elements of {width}")
    count = bits // width
    return neighbours(compiler, pointer, count, site, write), dtype if count == 1 else f"{dtype}x{count}"


@intrinsic(*(f"tl.ldg{bits}" for bits in _WIDTHS))
def _load(compiler: Compiler, node: Any, site: Site) -> Code:
    """Bits of global memory as uint32; 0 where the predicate does not hold."""
    accesses, dtype = _elements(compiler, node.args[0], int(node.op.name.removeprefix("tl.ldg")), site)
    parts = [Code(access.load, scalar_name(dtype)) for access in accesses]
    bits = reinterpret_vector(compiler, side_by_side(compiler, parts, dtype), str(node.dtype), site)
    if len(node.args) < 2:
        return bits
    return select(compiler.expression(node.args[1], site), bits, constant(0, str(node.dtype)), str(node.dtype))


@operation(*(f"tl.stg{bits}" for bits in _WIDTHS))
def _store(compiler: Compiler, call: Any, site: Site) -> Step:
    """Store bits to global memory where the predicate holds."""
    bits = int(call.op.name.removeprefix("tl.stg"))
    accesses, dtype = _elements(compiler, call.args[0], bits, site, write=True)
    value = compiler.expression(call.args[1], site)
    if bits != 8 * storage_dtype(value.dtype).itemsize * lanes(value.dtype):
        raise UnsupportedError(f"`{site.operation}` stores {bits} bits, and {value.dtype} has another number of them")
    vector = reinterpret_vector(compiler, value, dtype, site)
    parts = [element_of(compiler, vector, number) for number in range(len(accesses))]

    def store(frame: Frame) -> Signal | None:
        for access, part in zip(accesses, parts, strict=True):
            access.store(frame, part.run(frame))
        return None

    return store if len(call.args) < 3 else branch(compiler.expression(call.args[2], site), store, None)
