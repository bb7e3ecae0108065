"""A kernel that stands in for a compiled one: called with torch tensors on the CPU, it runs in the interpreter.

With it the whole wrapper of a kernel (its checks, its choice of tiles, its workspaces, a second kernel that combines) can be
tested on a machine without a GPU.
"""

from __future__ import annotations

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

    ``findings`` holds what the last call found. With ``strict`` a call raises ``WrongKernelError`` for anything but notes.
    """

    def __init__(self, prim_func: Any, *, jobs: int = 1, strict: bool = True) -> None:
        self.prim_func = to_prim_func(prim_func)
        self.jobs = jobs
        self.strict = strict
        self.findings: list[Finding] = []
        self._names = parameter_names(self.prim_func)

    def __call__(self, *arguments: Any) -> None:
        if len(arguments) != len(self._names):
            raise InvalidKernelError(f"the kernel takes {', '.join(self._names)}, and got {len(arguments)} arguments")
        given = dict(zip(self._names, arguments, strict=True))
        result = run(self.prim_func, given, jobs=self.jobs)
        self.findings = result.findings
        if self.strict and result.errors:
            raise WrongKernelError("\n".join(str(finding) for finding in result.errors))
        for name, output in result.outputs.items():
            if isinstance(given[name], np.ndarray):
                given[name][...] = output
            else:
                given[name].copy_(to_torch(output))


def parameter_names(prim_func: Any) -> list[str]:
    """The names of a prim_func's arguments in order: of the buffer where one is bound, else of the scalar."""
    buffers = prim_func.buffer_map
    return [str(buffers[key].name if key in buffers else key.name) for key in prim_func.params]
