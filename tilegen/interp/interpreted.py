"""Runs a program as it stands, with every TileLang kernel in it interpreted instead of compiled.

``with interpreted():`` changes what ``tilelang.compile``, ``tilelang.jit`` functions of both styles and ``tilelang.autotune``
make: a kernel that is called as a compiled one is (``out_idx``, returned ``T.empty`` tensors, profilers and their
comparisons), and runs here. Nothing is compiled, and no GPU is needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest import mock

from tilelang.autotuner.tuner import AutoTuneImpl
from tilelang.engine.lower import extrac_params
from tilelang.jit import JITImpl, JITKernel
from tilelang.jit.adapter.base import BaseKernelAdapter
from tilelang.profiler import Profiler

from tilegen.interp.findings import Finding
from tilegen.interp.places import places_of_callers
from tilegen.interp.stand_in import InterpretedKernel

#: Where a jit function keeps kernels: by arguments, by the form of the call, by tuned configuration.
_CACHES = ("_kernel_cache", "_call_form_cache", "_tuner_cache")


@dataclass(frozen=True)
class Call:
    """One call of a kernel: its name, what was found (notes too), and how long the interpreter took, in seconds."""

    kernel: str
    findings: Sequence[Finding]
    seconds: float


@dataclass
class Session:
    """What one ``interpreted()`` has run, in order."""

    jobs: int = 1
    strict: bool = True
    allow: Collection[str] = ()
    calls: list[Call] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        return [finding for call in self.calls for finding in call.findings]

    @property
    def errors(self) -> list[Finding]:
        """The findings that make a kernel wrong (all but notes)."""
        return [finding for finding in self.findings if finding.severity == "error"]


@contextmanager
def interpreted(*, jobs: int = 1, strict: bool = True, allow: Collection[str] = ()) -> Iterator[Session]:
    """Interpret every TileLang kernel that is made inside; gives the ``Session`` that remembers each call.

    With ``strict`` a call raises ``WrongKernelError`` where the kernel does something wrong (notes do not count). Findings of
    the kinds in ``allow`` are not reported. Tensors may live on any device. An autotuned function takes its first
    configuration. Times are not modelled: ``do_bench`` runs its function once and gives NaN. A compiled kernel that the
    program has kept from before stays compiled, and what a program keeps from inside stays interpreted.
    """
    session = Session(jobs, strict, allow)
    caches = _Caches()
    call = JITImpl.__call__

    def call_interpreted(function: Any, *arguments: Any, **named: Any) -> Any:
        caches.set_aside(function)
        return call(function, *arguments, **named)

    def make(func: Any, out_idx: Any = None, **_options: Any) -> _Kernel:
        return _Kernel(func, out_idx, session)

    with ExitStack() as changes:
        changes.enter_context(places_of_callers())
        changes.callback(caches.put_back)
        for owner, name, value in (
            (importlib.import_module("tilelang.jit"), "cached", make),
            (JITImpl, "__call__", call_interpreted),
            (AutoTuneImpl, "__call__", _first_configuration),
            (Profiler, "do_bench", _run_once),
            (importlib.import_module("tilelang.profiler"), "do_bench", _call_once),
        ):
            changes.enter_context(mock.patch.object(owner, name, value))
        yield session


class _Caches:
    """The kernels that jit functions hold: compiled ones are set aside while interpreted ones take their place."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Any, dict[str, Any]]] = {}

    def set_aside(self, function: Any) -> None:
        if id(function) not in self._kept:
            self._kept[id(function)] = function, {name: getattr(function, name) for name in _CACHES}
            for name in _CACHES:
                setattr(function, name, type(getattr(function, name))())

    def put_back(self) -> None:
        for function, caches in self._kept.values():
            for name, value in caches.items():
                setattr(function, name, value)


def _first_configuration(function: Any, *arguments: Any, **named: Any) -> Any:
    """An autotuned function with the first of its configurations, and nothing measured.

    Where the caller gives a value for any of what is tuned, TileLang tunes nothing: it is called as it stands.
    """
    configurations = function.configs(*arguments, **named) if callable(function.configs) else function.configs
    first = dict(next(iter(configurations or ()), {}))
    given = function.jit_impl.signature.bind_partial(*arguments, **named).arguments
    if any(name in given for name in first):
        return function.jit_impl(*arguments, **named)
    return function.jit_impl(*arguments, **named, __tune_params=first)


def _run_once(profiler: Any, func: Callable[..., Any] | None = None, *_arguments: Any, **named: Any) -> float:
    inputs = named.get("input_tensors") or profiler._get_inputs()
    return _call_once(partial(func or profiler.adapter, *inputs))


def _call_once(function: Callable[[], Any], *_arguments: Any, **_named: Any) -> float:
    function()
    return float("nan")


class _Kernel(JITKernel):  # type: ignore[misc]
    """A ``JITKernel`` whose function is the interpreter; it has no binary and no resources."""

    def __init__(self, func: Any, out_idx: Any, session: Session) -> None:
        self.prim_func = func
        self.artifact = None
        self.execution_backend = "interpreter"
        self.adapter = _Adapter(func, out_idx, session)
        self.torch_function = self.adapter.func

    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """A comment: nothing was compiled. Programs that print their source go on."""
        return "// this kernel is interpreted: nothing was compiled"

    get_host_source = get_kernel_source


class _Adapter(BaseKernelAdapter):  # type: ignore[misc]
    """Calls with tensors: takes all arguments but the outputs of ``out_idx``, and returns those."""

    def __init__(self, prim_func: Any, out_idx: Any, session: Session) -> None:
        self.prim_func = prim_func
        self.session = session
        super().__init__(None, extrac_params(prim_func), list(out_idx) if isinstance(out_idx, Sequence) else out_idx)

    def _convert_torch_func(self) -> Callable[..., Any]:
        session = self.session
        kernel = InterpretedKernel(
            self.prim_func, jobs=session.jobs, strict=session.strict, allow=session.allow, out_idx=self.result_idx
        )

        def call(*arguments: Any) -> Any:
            try:
                return kernel(*arguments)
            finally:
                if kernel.seconds is not None:
                    session.calls.append(Call(kernel.name, kernel.findings, kernel.seconds))

        return call
