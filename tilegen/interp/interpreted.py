"""Runs a program as it stands, with every TileLang kernel in it interpreted instead of compiled.

``with interpreted():`` changes what ``tilelang.compile``, ``tilelang.jit`` functions of both styles and ``tilelang.autotune``
make: a kernel that is called as a compiled one is (``out_idx``, returned ``T.empty`` tensors, profilers and their
comparisons), and runs here. Nothing is compiled, and no GPU is needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from tilelang.autotuner.tuner import AutoTuneImpl
from tilelang.engine.lower import extrac_params
from tilelang.jit import JITImpl, JITKernel
from tilelang.jit.adapter.base import BaseKernelAdapter
from tilelang.profiler import Profiler

from tilegen.interp.execution import run
from tilegen.interp.findings import Finding, InvalidKernelError
from tilegen.interp.reference import to_torch
from tilegen.interp.stand_in import WrongKernelError, parameter_names


@dataclass
class Session:
    """What the kernels of one ``interpreted()`` have done: their findings in order, and how many calls were run."""

    jobs: int = 1
    strict: bool = True
    calls: int = 0
    findings: list[Finding] = field(default_factory=list)


@contextmanager
def interpreted(*, jobs: int = 1, strict: bool = True) -> Iterator[Session]:
    """Interpret every TileLang kernel that is made inside; gives the ``Session`` that collects findings.

    With ``strict`` a call raises ``WrongKernelError`` where the kernel does something wrong (notes do not count). Tensors may
    live on any device. An autotuned function takes its first configuration. Times are not modelled: ``do_bench`` runs the
    kernel once and gives NaN. Kernels compiled before stay as they are where they were kept by the caller.
    """
    session = Session(jobs, strict)
    kept: dict[int, tuple[JITImpl[..., Any, Any, Any], dict[str, Any]]] = {}

    def own_caches(function: JITImpl[..., Any, Any, Any]) -> None:
        """A jit function keeps what it compiled: set that aside until the end, and drop what was interpreted then."""
        if id(function) not in kept:
            kept[id(function)] = function, {name: getattr(function, name) for name in _CACHES}
            for name in _CACHES:
                setattr(function, name, type(getattr(function, name))())

    call = JITImpl.__call__

    def call_interpreted(function: JITImpl[..., Any, Any, Any], *arguments: Any, **named: Any) -> Any:
        own_caches(function)
        return call(function, *arguments, **named)

    def call_autotuned(function: AutoTuneImpl[..., Any], *arguments: Any, **named: Any) -> Any:
        configurations = function.configs(*arguments, **named) if callable(function.configs) else function.configs
        first = dict(next(iter(configurations), {}))
        return function.jit_impl(*arguments, **named, __tune_params=first)

    def make(func: Any, out_idx: Any = None, **_options: Any) -> InterpretedJITKernel:
        return InterpretedJITKernel(func, out_idx, session)

    with ExitStack() as changes:
        for owner, name, value in (
            (importlib.import_module("tilelang.jit"), "cached", make),
            (JITImpl, "__call__", call_interpreted),
            (AutoTuneImpl, "__call__", call_autotuned),
            (Profiler, "do_bench", _once),
        ):
            changes.enter_context(mock.patch.object(owner, name, value))
        try:
            yield session
        finally:
            for function, caches in kept.values():
                for name, value in caches.items():
                    setattr(function, name, value)


#: The kernels that a jit function keeps: by arguments, by the form of the call, by tuned configuration.
_CACHES = ("_kernel_cache", "_call_form_cache", "_tuner_cache")


def _once(profiler: Profiler, func: Any = None, *_arguments: Any, **named: Any) -> float:
    inputs = named.get("input_tensors") or profiler._get_inputs()
    (func or profiler.adapter)(*inputs)
    return float("nan")


class InterpretedJITKernel(JITKernel[..., Any]):  # type: ignore[misc]
    """A ``JITKernel`` whose function is the interpreter; it has no source, no binary and no resources."""

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
        self.names = parameter_names(prim_func)
        super().__init__(None, extrac_params(prim_func), list(out_idx) if isinstance(out_idx, Sequence) else out_idx)

    def _convert_torch_func(self) -> Any:
        return self._run

    def _run(self, *arguments: Any) -> Any:
        taken = [name for index, name in enumerate(self.names) if index not in self.result_idx]
        if len(arguments) != len(taken):
            raise InvalidKernelError(f"the kernel takes {', '.join(taken)}, and got {len(arguments)} arguments")
        given = dict(zip(taken, arguments, strict=True))
        result = run(self.prim_func, given, jobs=self.session.jobs)
        self.session.calls += 1
        self.session.findings += result.findings
        if self.session.strict and result.errors:
            raise WrongKernelError("\n".join(str(finding) for finding in result.errors))
        returned = [to_torch(result.outputs[self.names[index]]) for index in self.result_idx]
        for name, output in result.outputs.items():
            if name in given:
                given[name].copy_(to_torch(output))
        devices = [argument.device for argument in arguments if hasattr(argument, "device")]
        if devices:
            returned = [tensor.to(devices[0]) for tensor in returned]
        return returned[0] if len(returned) == 1 else returned or None
