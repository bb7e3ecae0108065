"""Rules that no spec can break: a family's plan obeys them, and the same plan, broken by hand, does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from tilegen.check.checker import plans
from tilegen.check.domain import domain_of
from tilegen.check.examples import Example
from tilegen.check.prover import prove
from tilegen.check.rule import Rule, catalogue
from tilegen.plan.model import Copy, Elementwise, Fill, Gemm, KernelPlan, Loop, LoopKind, Scope, TilePlan
from tilegen.plan.registers import demands
from tilegen.spec import load_bytes

PLAIN = {"schedule": "plain"}
DELAYED = {"schedule": "delayed"}
SPLIT = {"schedule": "plain", "tile": {"num_split": 4}}
WHOLE = {"schedule": "plain", "dims": {"S": {"dynamic": True, "max": 8192, "multiple_of": 64}}}
X_ALONE = {"tensors": {"x": {"shape": "M C", "dtype": "float32"}}, "compute": {"y": "x * rstd"}}


@cache
def _spec(of: str, change: str) -> Any:
    changes = {"plain": PLAIN, "delayed": DELAYED, "split": SPLIT, "x alone": X_ALONE, "whole blocks": WHOLE, "": {}}
    return load_bytes(Example("", False, of, changes[change], "").spec(), "example.toml")


def mla(change: str) -> TilePlan:
    return next(iter(plans(_spec("attention/mla_decode", change))))


def gemm() -> TilePlan:
    return next(iter(plans(_spec("gemm", ""))))


def norm() -> TilePlan:
    return next(iter(plans(_spec("row_norm", "x alone"))))


def holds(rule: Rule, plan: TilePlan) -> bool:
    """Whether a rule says something of the plan, and all that it says is proved."""
    domain = domain_of(plan.spec).restricted(plan.case.condition)
    claims = [obligation.claim for obligation in rule.obligations(plan)]
    assert claims, f"{rule.id} says nothing"
    return all(prove(claim, domain).proved for claim in claims)


def rewritten(ops: tuple[Any, ...], change: Callable[[Any], list[Any]]) -> tuple[Any, ...]:
    """A tile program with each operation replaced by what ``change`` gives for it, inside loops too."""
    found: list[Any] = []
    for op in ops:
        op = replace(op, body=rewritten(op.body, change)) if isinstance(op, Loop) else op
        found += change(op)
    return tuple(found)


def altered(plan: TilePlan, change: Callable[[Any], list[Any]], **kernel: Any) -> TilePlan:
    return replace(plan, kernels=tuple(replace(k, body=rewritten(k.body, change), **kernel) for k in plan.kernels))


def with_buffers(plan: TilePlan, name: str, **fields: Any) -> TilePlan:
    def swap(kernel: KernelPlan) -> KernelPlan:
        return replace(kernel, buffers=tuple(replace(b, **fields) if b.name == name else b for b in kernel.buffers))

    return replace(plan, kernels=tuple(map(swap, plan.kernels)))


def filled(plan: TilePlan, name: str, over: int = 0) -> TilePlan:
    """A float32 fragment as large as the registers of a thread that are left for it, and so many registers larger."""
    (kernel,) = plan.kernels
    (demand,) = demands(plan, kernel)
    room = demand.available - demand.beside
    return with_buffers(plan, name, shape=(kernel.launch.threads, room + over), owners=None, annotated=False)


def with_launch(plan: TilePlan, **fields: Any) -> TilePlan:
    return replace(plan, kernels=tuple(replace(k, launch=replace(k.launch, **fields)) for k in plan.kernels))


def without(what: str) -> Callable[[Any], list[Any]]:
    return lambda op: [] if isinstance(op, Elementwise) and op.what.startswith(what) else [op]


def fills_with(value: float) -> Callable[[Any], list[Any]]:
    return lambda op: [replace(op, value=value)] if isinstance(op, Fill) else [op]


def maximum_from_minus_inf(op: Any) -> list[Any]:
    return [replace(op, value=float("-inf")) if isinstance(op, Fill) and op.buffer == "row_max" else op]


def columnwise(op: Any) -> list[Any]:
    return [replace(op, threads=256, policy="full_col") if isinstance(op, Gemm) else op]


def doubled_loop(op: Any) -> list[Any]:
    return [op, op] if isinstance(op, Loop) and op.kind is LoopKind.PIPELINED else [op]


def read_after(op: Any) -> list[Any]:
    again = Copy("kv_shared", "scores", (64, 64))
    return [op, again] if isinstance(op, Loop) and op.kind is LoopKind.PIPELINED else [op]


def merged_again_from_minus_inf(op: Any) -> list[Any]:
    return [op, *unmarked(op)] if isinstance(op, Elementwise) and "o_partial" in op.reads else [op]


def unmarked(op: Any) -> list[Any]:
    return [replace(op, what="") if isinstance(op, Elementwise) and "o_partial" in op.reads else op]


BROKEN: list[tuple[str, str, TilePlan, TilePlan]] = [
    ("A6", "four axes", mla("plain"), with_launch(mla("plain"), grid=(1, 1, 1, 1))),
    ("A6", "no axis", mla("plain"), with_launch(mla("plain"), grid=())),
    ("A5", "no block", gemm(), with_launch(gemm(), grid=(0, 1))),
    (
        "C6",
        "one axis too many",
        with_buffers(mla("plain"), "kv", shape=(1, 1, 1, 1, 576)),
        with_buffers(mla("plain"), "kv", shape=(1, 1, 1, 1, 1, 576)),
    ),
    ("C6", "another dtype", mla("plain"), with_buffers(mla("plain"), "kv_shared", dtype="float32")),
    ("C6", "six axes", mla("plain"), with_buffers(mla("plain"), "kv", shape=(1, 1, 1, 1, 1, 576))),
    ("C6", "another dtype on the way out", gemm(), with_buffers(gemm(), "c_shared", dtype="float32")),
    ("D13", "an operand in global memory", mla("plain"), with_buffers(mla("plain"), "kv_shared", scope=Scope.GLOBAL)),
    ("D13", "a left operand in registers", mla("plain"), with_buffers(mla("plain"), "p_shared", scope=Scope.FRAGMENT)),
    ("D13", "an accumulator in shared memory", mla("plain"), with_buffers(mla("plain"), "acc", scope=Scope.SHARED)),
    ("D16", "one accumulator too many", filled(gemm(), "acc"), filled(gemm(), "acc", 1)),
    ("E1", "two warp groups side by side", mla("delayed"), altered(mla("delayed"), columnwise)),
    (
        "E5",
        "no mask, and a tail",
        altered(mla("whole blocks"), without("mask")),
        altered(mla("plain"), without("mask")),
    ),
    ("E5", "no mask", mla("plain"), altered(mla("plain"), without("mask"))),
    ("E6", "no finite start", mla("plain"), altered(mla("plain"), fills_with(float("-inf")))),
    ("E6", "only the maximum from -inf", mla("plain"), altered(mla("plain"), maximum_from_minus_inf)),
    ("E6", "no guarded divisor", mla("plain"), altered(mla("plain"), without("divisor"))),
    ("E12", "one id twice", mla("delayed"), altered(mla("delayed"), lambda op: [op], named_barriers=(8, 8))),
    ("E12", "an id of TileLang's", mla("delayed"), altered(mla("delayed"), lambda op: [op], named_barriers=(7, 8))),
    ("E12", "an id past the last", mla("delayed"), altered(mla("delayed"), lambda op: [op], named_barriers=(15, 16))),
    (
        "E12",
        "one id past the last",
        altered(mla("delayed"), lambda op: [op], named_barriers=(8, 15)),
        altered(mla("delayed"), lambda op: [op], named_barriers=(8, 16)),
    ),
    ("E14", "a maximum from -inf", mla("split"), altered(mla("split"), unmarked)),
    ("E14", "one maximum of two from -inf", mla("split"), altered(mla("split"), merged_again_from_minus_inf)),
    ("E14", "no guarded divisor", mla("split"), altered(mla("split"), without("divisor"))),
    ("F9", "one element of a row too many", filled(norm(), "x_row"), filled(norm(), "x_row", 1)),
    ("G1", "read after the loop", mla("plain"), altered(mla("plain"), read_after)),
    ("G5", "two loops", mla("plain"), altered(mla("plain"), doubled_loop)),
]


@pytest.mark.parametrize(("rule", "how", "plan", "broken"), BROKEN, ids=[f"{r}: {how}" for r, how, _, _ in BROKEN])
def test_a_plan_that_is_broken_by_hand_is_refuted(rule: str, how: str, plan: TilePlan, broken: TilePlan) -> None:
    assert holds(catalogue()[rule], plan)
    assert not holds(catalogue()[rule], broken)


def test_every_rule_of_the_families_is_broken_here() -> None:
    kept = {entry.id for entry in catalogue().values() if entry.of_family and not entry.over_spec}
    assert kept <= {rule for rule, *_ in BROKEN}


@pytest.mark.parametrize("ids", [(8, 15), (9,)])
def test_the_barriers_from_8_to_15_are_the_sources_own(ids: tuple[int, ...]) -> None:
    assert holds(catalogue()["E12"], altered(mla("delayed"), lambda op: [op], named_barriers=ids))
