"""A kernel that stands in for a compiled one: called with torch tensors on the CPU, it runs in the interpreter.

With it the whole wrapper of a kernel (its checks, its choice of tiles, its workspaces, a second kernel that combines) can be
tested on a machine without a GPU.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tilegen.interp.execution import run
from tilegen.interp.findings import Finding, InvalidKernelError
from tilegen.interp.loading import to_prim_func
from tilegen.interp.reference import to_torch


class WrongKernelError(AssertionError):
    """The interpreter found something wrong; the message lists it."""


class InterpretedKernel:
    """Calls ``prim_func`` as a compiled kernel is called: positional tensors and scalars, outputs written in place.

    The buffers at the positions ``out_idx`` are no arguments: they are made, and returned (one, or a list). ``findings`` holds
    what the last call found, but for the kinds in ``allow``, and ``seconds`` how long it ran (None if it could not). With
    ``strict`` a call raises ``WrongKernelError`` for anything but notes.
    """

    def __init__(
        self,
        prim_func: Any,
        *,
        jobs: int = 1,
        strict: bool = True,
        allow: Collection[str] = (),
        out_idx: Sequence[int] = (),
    ) -> None:
        self.prim_func = to_prim_func(prim_func)
        self.name = str((self.prim_func.attrs or {}).get("global_symbol", "main"))
        self.jobs = jobs
        self.strict = strict
        self.allow = allow
        self.findings: list[Finding] = []
        self.seconds: float | None = None
        names = parameter_names(self.prim_func)
        self._taken = [name for index, name in enumerate(names) if index not in out_idx]
        self._returned = [names[index] for index in out_idx]

    def __call__(self, *arguments: Any) -> Any:
        self.findings, self.seconds = [], None
        if len(arguments) != len(self._taken):
            raise InvalidKernelError(f"{self.name} takes {', '.join(self._taken)}, and got {len(arguments)} arguments")
        given = dict(zip(self._taken, arguments, strict=True))
        start = time.perf_counter()
        result = run(self.prim_func, given, jobs=self.jobs, allow=self.allow)
        self.findings, self.seconds = result.findings, time.perf_counter() - start
        if self.strict and result.errors:
            raise WrongKernelError("\n".join(str(finding) for finding in result.errors))
        for name, output in result.outputs.items():
            if name not in given:
                continue
            if isinstance(given[name], np.ndarray):
                given[name][...] = output
            else:
                given[name].copy_(to_torch(output))
        device = next((argument.device for argument in arguments if hasattr(argument, "detach")), "cpu")
        memory = {**result.inputs, **result.outputs}  # an output that the kernel never writes is returned all the same
        returned = [to_torch(memory[name]).to(device) for name in self._returned]
        return returned[0] if len(returned) == 1 else returned or None


def parameter_names(prim_func: Any) -> list[str]:
    """The names of a prim_func's arguments in order: of the buffer where one is bound, else of the scalar."""
    buffers = prim_func.buffer_map
    return [str(buffers[key].name if key in buffers else key.name) for key in prim_func.params]
