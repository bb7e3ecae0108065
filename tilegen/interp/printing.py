"""``T.print``: one line for a value that all threads share or for an element, and all threads on one line if they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.findings import Site
from tilegen.interp.frame import Frame
from tilegen.interp.number_formats import Array
from tilegen.interp.steps import Signal, Step

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler


def is_print(call: Any) -> bool:
    """Whether a call of an external function is one that ``T.print`` makes."""
    return str(getattr(call.args[0], "value", "")).startswith("debug_print")


def compile_print(compiler: Compiler, call: Any, site: Site) -> Step:
    """``debug_print_var(message, value)``, ``debug_print_buffer_value(message, buffer, index, value)`` or a message alone."""
    compiler.prints = True
    texts = [str(argument.value) for argument in call.args[1:] if type(argument).__name__ == "StringImm"]
    numbers = [argument for argument in call.args[1:] if type(argument).__name__ != "StringImm"]
    if len(numbers) == 2 and type(numbers[1]).__name__ == "BufferLoad":
        numbers = [*numbers[1].indices, numbers[1]]  # in place of the flat index
    codes = [compiler.expression(number, site) for number in numbers]

    def run(frame: Frame) -> Signal | None:
        values = [_active(frame, code.run(frame)) for code in codes]
        where = "".join(f", {name} = {number}" for name, number in site.loop_values(frame.environment).items())
        frame.block.print_line(f"block {frame.block.coordinates}{where}: {_line(texts, values)}")
        return None

    return run


def _line(texts: list[str], values: list[Any]) -> str:
    if len(values) > 1:
        message, name = (*texts, "")[:2]
        own_message = "" if message == f"buffer<{name}" or message.startswith(f"buffer<{name},") else f"{message}: "
        return f"{own_message}{name}[{', '.join(map(str, values[:-1]))}] = {values[-1]}"
    return ": ".join([*texts, *map(str, values)])


def _active(frame: Frame, value: Any) -> Any:
    """The one value of all active threads and iterations, or the values of each in order."""
    array: Array = np.asarray(value)
    if frame.mask is not None and array.ndim:
        array = np.broadcast_to(array, np.broadcast_shapes(array.shape, frame.mask.shape))
        array = array[np.broadcast_to(frame.mask, array.shape)]
    if array.size and (array == array.reshape(-1)[0]).all():
        return array.reshape(-1)[0]
    return np.array2string(array.reshape(-1), max_line_width=2**30, separator=", ")
