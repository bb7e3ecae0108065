"""Runs TileLang prim_funcs on the CPU with numpy, and says what is wrong with them.

>>> from tilegen.interp import run
>>> result = run(prim_func, {"A": a, "B": b})
>>> result.outputs["C"], result.findings
"""

from tilegen.interp.execution import Result, run
from tilegen.interp.externals import Pointer, external
from tilegen.interp.findings import KINDS, Finding, InvalidKernelError, UnsupportedError
from tilegen.interp.stand_in import InterpretedKernel, WrongKernelError

__all__ = [
    "KINDS",
    "Finding",
    "InterpretedKernel",
    "InvalidKernelError",
    "Pointer",
    "Result",
    "UnsupportedError",
    "WrongKernelError",
    "external",
    "run",
]
