"""Pointers as integers: ``T.ptr`` arguments given as addresses, and tensors that a kernel makes from tables of addresses.

An address is one of this process (``tensor.data_ptr()`` of a tensor on the CPU). Memory that is not mapped is refused; what
lies behind the end of a tensor but is mapped cannot be told from it.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.findings import InvalidKernelError, UnsupportedError
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import as_scalar
from tilegen.interp.memory import Storage
from tilegen.interp.number_formats import Array, is_packed, storage_dtype
from tilegen.interp.steps import Signal, Step

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler

#: A system maps nothing below: a smaller number is no address.
LOWEST_ADDRESS = 1 << 16
_MAPS = Path("/proc/self/maps")


def is_pointer_binding(node: Any) -> bool:
    """Whether a binding names the memory at an address: ``Src = reinterpret("handle", table[i])``."""
    value = node.value
    return str(node.var.dtype) == "handle" and type(value).__name__ == "Call" and value.op.name == "tirx.reinterpret"


def bind_pointer(compiler: Compiler, node: Any) -> Step:
    """Give the buffers that are declared at an address their memory, each time the address is computed."""
    site = compiler.site(node)
    address = compiler.expression(node.value.args[0], site)
    plans = compiler.declare_pointer(node.var)
    known: dict[tuple[int, tuple[int, ...], int], Storage] = {}

    def run(frame: Frame) -> Signal | None:
        place = as_scalar(address.run(frame))
        if not isinstance(place, int):
            raise UnsupportedError(f"the address in `{site.operation}` differs between threads")
        for plan in plans:
            shape = plan.extents(frame)
            key = place, shape, plan.slot
            if key not in known:
                array = array_at(place, shape, plan.dtype, plan.name, bool(plan.written_in))
                known[key] = Storage(plan.name, plan.dtype, "global", array, safe_value=plan.safe_value)
                if frame.block.diagnostics and plan.written_in:
                    known[key].writer = np.zeros(shape, dtype=np.int32)
                    known[key].check_readers = bool(plan.read_in)
            frame.memory[plan.slot] = known[key]
        return None

    return run


def array_at(address: int, shape: Sequence[int], dtype: str, name: str, written: bool) -> Array:
    """The memory of this process at ``address`` as an array; raises ``InvalidKernelError`` where it is not mapped."""
    if is_packed(dtype):
        raise UnsupportedError(f"{name} is {dtype} behind a pointer, which is not modelled: its elements share bytes")
    count = math.prod(shape)
    size = count * storage_dtype(dtype).itemsize
    if not _is_mapped(address, address + size, written):
        raise InvalidKernelError(
            f"the address {address:#x} of {name}, {tuple(shape)} of {dtype}, is no memory of this process: give "
            "tensor.data_ptr() of a tensor on the CPU that is still in use"
        )
    memory: Any = (ctypes.c_char * size).from_address(address)
    array: Array = np.frombuffer(memory, dtype=storage_dtype(dtype), count=count).reshape(tuple(shape))
    return array


def _is_mapped(start: int, stop: int, written: bool) -> bool:
    """Whether this process may read (and write) all the bytes from ``start`` to ``stop``."""
    if start == stop:
        return True
    try:
        lines = _MAPS.read_text().splitlines()
    except OSError:
        raise UnsupportedError("pointers are followed on Linux only") from None
    for line in lines:
        bounds, rights = line.split()[:2]
        low, high = (int(part, 16) for part in bounds.split("-"))
        if low <= start < high and rights[0] == "r" and (rights[1] == "w" or not written):
            start = high
        if start >= stop:
            return True
    return False
