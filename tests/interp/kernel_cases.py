"""A kernel with its inputs, its independent result, and the fault that its factory can plant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilegen.interp import run
from tilegen.interp.reference import compare

#: A fault that only changes numbers: nothing is found, and the reference differs.
VALUES = "values"


@dataclass(frozen=True)
class Case:
    """``factory(fault=False)`` gives the prim_func, ``inputs(normal, rng)`` its arguments in order.

    ``reference(*inputs)`` gives one output, or a tuple. ``numbers`` are dimensions that no input determines.
    ``fault`` is what the factory's mistake leads to: a kind of finding, or ``VALUES``. ``tolerance`` is relative to the
    largest magnitude; None stands for eight ulp of the output.
    """

    factory: Callable[..., Any]
    inputs: Callable[[Any, Any], Mapping[str, Any]]
    reference: Callable[..., Any]
    fault: str
    tolerance: float | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)


def comparisons(case: Case, fault: bool, normal: Any, rng: Any) -> tuple[Any, list[Any]]:
    """The run of a case, and each of its outputs against the reference."""
    inputs = case.inputs(normal, rng)
    result = run(case.factory(fault=True) if fault else case.factory(), {**inputs, **case.numbers})
    expected = case.reference(*inputs.values())
    expected = expected if isinstance(expected, tuple) else (expected,)
    named = zip(result.outputs.items(), expected, strict=True)
    return result, [compare(name, got, np.asarray(value), case.tolerance) for (name, got), value in named]


def assert_right(case: Case, normal: Any, rng: Any) -> None:
    """Every number agrees, and nothing at all is found."""
    result, compared = comparisons(case, False, normal, rng)
    assert [str(finding) for finding in result.findings] == []
    assert all(comparison.passes for comparison in compared), compared


def assert_fault_is_seen(case: Case, normal: Any, rng: Any) -> None:
    """The fault gives exactly its kind of finding; a fault of values gives none, and a reference that differs."""
    result, compared = comparisons(case, True, normal, rng)
    if case.fault == VALUES:
        assert result.errors == []
        assert not all(comparison.passes for comparison in compared)
    else:
        assert {finding.kind for finding in result.errors} == {case.fault}


def assert_lowers(case: Case, arch: str = "sm_90a") -> None:
    """TileLang itself takes the kernel, as far as CUDA source."""
    import tilelang
    from tilelang import tvm

    with tvm.target.Target({"kind": "cuda", "arch": arch}) as target:
        source = tilelang.lower(case.factory(), target=target).kernel_source
    assert "__global__" in source
