"""External functions: what a kernel calls by name with ``T.call_extern``, written in Python.

A kernel may bring CUDA source (``T.import_source``), which the interpreter does not read. ``external`` gives it a Python
function of the same name::

    @external("dot4")
    def dot4(a, b, total):
        total[0] = total[0] + sum(a[i].astype("int32") * b[i] for i in range(4))

A pointer argument is a ``Pointer``: ``a[i]`` is the element ``i`` places on, for all threads at once (a numpy array, or a
number where they agree), and ``total[0] = ...`` stores. Every access is checked as the kernel's own are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.access import ElementAccess
from tilegen.interp.expressions import intrinsic, pointed_load
from tilegen.interp.findings import InvalidKernelError, Site, UnsupportedError
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import Affine, Code, as_scalar
from tilegen.interp.number_formats import convert, is_float
from tilegen.interp.printing import compile_print, is_print
from tilegen.interp.steps import Signal, Step, operation

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler

Function = Callable[..., Any]
_FUNCTIONS: dict[str, Function] = {}


def external(name: str) -> Callable[[Function], Function]:
    """Let a Python function stand for the external function ``name`` in every kernel run from now on."""

    def register(function: Function) -> Function:
        _FUNCTIONS[name] = function
        return function

    return register


class Pointer:
    """The memory from one element of a buffer on, in row-major order, as an external function sees it.

    Elements are read and written in the dtype of the buffer, ``dtype``.
    """

    def __init__(self, compiler: Compiler, load: Any, written: bool, site: Site) -> None:
        self.dtype = str(load.buffer.dtype)
        self._plan = compiler.buffer(load.buffer, site)
        self._compiler = compiler
        self._indices = [compiler.index_expression(index, site) for index in load.indices]
        self._site = site
        self._extent_slots = dict(compiler.extent_slots)
        self._accesses: dict[int, ElementAccess] = {}
        self._frame: Frame | None = None
        self._written = written
        if written:
            compiler.note_write(self._plan)
        self._plan.origin.read_in.add(compiler.kernel)

    def at(self, frame: Frame) -> Pointer:
        """This pointer in the threads of ``frame``."""
        self._frame = frame
        return self

    def __getitem__(self, offset: int) -> Any:
        assert self._frame is not None
        return self._access(offset).load(self._frame)

    def __setitem__(self, offset: int, value: Any) -> None:
        assert self._frame is not None
        if not self._written:
            raise InvalidKernelError(
                f"`{self._site.operation}` gives a pointer to {self._plan.name} for reading, and the function stores through it"
            )
        array = np.asarray(value)
        given = array.dtype.name if array.dtype.kind != "b" else "bool"
        self._access(offset).store(
            self._frame, as_scalar(convert(array if array.ndim else array[()], given, self.dtype))
        )

    def _access(self, offset: int) -> ElementAccess:
        if offset not in self._accesses:
            last = self._indices[-1]
            moved = Code(
                lambda frame: last.run(frame) + offset,
                last.dtype,
                affine=last.as_affine().plus(Affine(None, offset, ())),
            )
            self._accesses[offset] = ElementAccess(
                self._plan.slot,
                [*self._indices[:-1], moved],
                self._site,
                self._compiler.axes,
                self._extent_slots,
                self._compiler.guarded,
            )
        return self._accesses[offset]


def _compile(compiler: Compiler, call: Any, site: Site) -> Callable[[Frame], Any]:
    """The call of a registered function: pointers for what names memory, values for the rest."""
    name = str(call.args[0].value)
    function = _FUNCTIONS.get(name)
    if function is None:
        raise UnsupportedError(
            f"the external function {name} is not modelled: `{site.operation}`; tilegen.interp.external({name!r}) gives it "
            "a Python function"
        )
    arguments = [_argument(compiler, argument, site) for argument in call.args[1:]]

    def run(frame: Frame) -> Any:
        values = [part.at(frame) if isinstance(part, Pointer) else part.run(frame) for part in arguments]
        return function(*values)

    return run


def _argument(compiler: Compiler, node: Any, site: Site) -> Pointer | Code:
    if type(node).__name__ == "Call" and node.op.name in ("tl.access_ptr", "tirx.address_of", "tirx.tvm_access_ptr"):
        written = node.op.name != "tl.access_ptr" or bool(int(node.args[2].value) & 2)
        return Pointer(compiler, pointed_load(compiler, node, site), written, site)
    return compiler.expression(node, site)


@intrinsic("tirx.call_extern", "tirx.call_pure_extern")
def _value(compiler: Compiler, node: Any, site: Site) -> Code:
    run, dtype = _compile(compiler, node, site), str(node.dtype)

    def convert_result(frame: Frame) -> Any:
        result = run(frame)
        if result is None:
            raise UnsupportedError(f"the external function {node.args[0].value} gives no value: `{site.operation}`")
        array = np.asarray(result)
        if not is_float(dtype):
            array = array.astype(np.int64)
        return as_scalar(convert(array if array.ndim else array[()], array.dtype.name, dtype))

    return Code(convert_result, dtype)


@operation("tirx.call_extern", "tirx.call_pure_extern")
def _statement(compiler: Compiler, call: Any, site: Site) -> Step:
    if is_print(call):
        return compile_print(compiler, call, site)
    run = _compile(compiler, call, site)

    def step(frame: Frame) -> Signal | None:
        run(frame)
        return None

    return step


@external("__nanosleep")
def _sleep(_nanoseconds: Any) -> None:
    """Time is not modelled."""


@external("DP4A")
def _dot_of_four_bytes(a: Pointer, b: Pointer, total: Pointer) -> None:
    """TileLang's own: the product of four int8 with four, added to an int32."""
    products = [np.asarray(a[i], dtype=np.int64) * np.asarray(b[i], dtype=np.int64) for i in range(4)]
    total[0] = (np.asarray(total[0], dtype=np.int64) + sum(products)).astype(np.int32)
