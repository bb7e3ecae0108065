"""Copies and fills of per-thread memory (``alloc_local``, ``alloc_var``): each thread carries them out for itself.

TileLang turns them into a loop over the elements in every thread, so the bounds of the region may differ between threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilegen.interp.findings import Site, UnsupportedError
from tilegen.interp.steps import Step, compile_statement

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler

_REGISTERS = ("local", "local.var")


def names_registers(node: Any) -> bool:
    """Whether an operand of a tile operation lies in per-thread memory."""
    load = _parts(node)[0]
    return load is not None and str(load.buffer.scope()) in _REGISTERS


def fill_registers(compiler: Compiler, target: Any, value: Any, site: Site) -> Step:
    """``T.fill`` of a region of per-thread memory."""
    from tvm import tirx

    load, extents = _parts(target)
    variables = [tirx.Var(f"i{axis}", "int32") for axis in range(len(extents))]
    return _loops(compiler, load, load.indices, extents, variables, tirx.Cast(load.buffer.dtype, value), site)


def copy_registers(compiler: Compiler, source: Any, target: Any, site: Site) -> Step:
    """``T.copy`` between per-thread memory and other memory, element by element in each thread."""
    from tvm import tirx

    (origin, given), (load, taken) = _parts(source), _parts(target)
    if origin is None or load is None:
        raise UnsupportedError(f"an operand of `{site.operation}` is no region of a buffer")
    leads = str(origin.buffer.scope()) in _REGISTERS
    extents = given if leads else taken
    for side, other in ((origin, given), (load, taken)):
        if str(side.buffer.scope()) == "local.fragment" and any(not _is_one(extent) for extent in other):
            raise UnsupportedError(
                f"`{site.operation}` copies between a fragment, which the threads share, and registers of each thread"
            )
    variables = [tirx.Var(f"i{axis}", "int32") for axis in range(len(extents))]
    running = [variable for variable, extent in zip(variables, extents, strict=True) if not _is_one(extent)]
    other_extents = taken if leads else given
    if len(running) != sum(not _is_one(extent) for extent in other_extents):
        raise UnsupportedError(f"the extents of the two sides of `{site.operation}` do not match")
    following = iter(running)
    partners = [tirx.Var("one", "int32") if _is_one(extent) else next(following) for extent in other_extents]
    from_variables, to_variables = (variables, partners) if leads else (partners, variables)
    element = tirx.BufferLoad(origin.buffer, _shifted(origin.indices, from_variables, given))
    value = tirx.Cast(load.buffer.dtype, element) if element.dtype != load.buffer.dtype else element
    indices = _shifted(load.indices, to_variables, taken)
    return _nest(compiler, tirx.BufferStore(load.buffer, value, indices), variables, extents, site)


def _loops(
    compiler: Compiler, load: Any, minima: Any, extents: list[Any], variables: list[Any], value: Any, site: Site
) -> Step:
    from tvm import tirx

    store = tirx.BufferStore(load.buffer, value, _shifted(minima, variables, extents))
    return _nest(compiler, store, variables, extents, site)


def _nest(compiler: Compiler, store: Any, variables: list[Any], extents: list[Any], site: Site) -> Step:
    """The store in a serial loop for each extent other than one, compiled so that findings name the operation."""
    from tvm import tirx

    for variable, extent in reversed(list(zip(variables, extents, strict=True))):
        if not _is_one(extent):
            store = tirx.For(variable, 0, extent, tirx.ForKind.SERIAL, store)
    with compiler.in_place_of(site.node):
        return compile_statement(compiler, store)


def _shifted(minima: Any, variables: list[Any], extents: list[Any]) -> list[Any]:
    return [
        low if _is_one(extent) else low + variable
        for low, variable, extent in zip(minima, variables, extents, strict=True)
    ]


def _is_one(extent: Any) -> bool:
    return isinstance(extent, int) and extent == 1


def _parts(node: Any) -> tuple[Any, list[Any]]:
    """The first element of a region and its extents, one for each axis; (None, []) for anything else."""
    if type(node).__name__ == "BufferLoad":
        return node, [1] * len(node.indices)
    if type(node).__name__ != "Call" or node.op.name != "tl.region":
        return None, []
    extents = [int(extent.value) if type(extent).__name__ == "IntImm" else extent for extent in node.args[2:]]
    load = node.args[0]
    return load, [1] * (len(load.indices) - len(extents)) + extents
