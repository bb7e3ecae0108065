"""Edits that a reviewer meets and that are easily told wrong: each with what must be said of it, and what must not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.review.history import LINEAR, LOCK, NORM
from tilegen.review.change import KernelDiff, Level
from tilegen.review.diff import Side
from tilegen.review.kernel import changed
from tilegen.review.names import kernel_name


def edited(text: str, *edits: tuple[str, str]) -> str:
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def side(text: str | bytes, lock: str | None = None, path: str = "specs/k.toml") -> Side:
    content = text if isinstance(text, bytes) else text.encode()
    return Side(path, kernel_name(content) or "k", content, None if lock is None else lock.encode(), {})


def told(before: Side, after: Side) -> KernelDiff:
    return changed(before, after, cached=False)


def lines(found: KernelDiff) -> list[str]:
    """``level subject: text [where]`` of every change, then its details."""
    return list(_lines(found))


def _lines(found: KernelDiff) -> Iterator[str]:
    for change in found.changes:
        yield f"{change.level.value} {change.subject}: {change.text}" + (f" [{change.where}]" if change.where else "")
        yield from (part for detail in change.details for part in detail.split("\n"))


@dataclass(frozen=True)
class Edit:
    """``says`` are beginnings of lines that must be there; ``never`` are texts that no line may hold."""

    name: str
    before: Side
    after: Side
    says: tuple[str, ...]
    level: Level = Level.NOTE
    never: tuple[str, ...] = ()


def rules(*entries: str) -> tuple[str, str]:
    return "BLOCK_C = 64\n", f"BLOCK_C = [ {', '.join(entries)} ]\n"


WIDE = '{ use = 128, when = "C % 128 == 0 and C > 256" }'
NARROW = '{ use = 64, when = "C <= 256" }'
WIDE_TOO = '{ use = 128, when = "C % 128 == 0" }'
FEW = ("BLOCK_M = 64\n", 'BLOCK_M = [ { use = 64, when = "M <= 64" }, { use = 128 } ]\n')
MORE = ("BLOCK_M = 64\n", 'BLOCK_M = [ { use = 64, when = "M <= 1024" }, { use = 128 } ]\n')
DEEP = edited(LINEAR, ("BLOCK_K = 64", "BLOCK_K = 128"), ("stages = 3", "stages = 2")) + "[target.sm_86]\n"
TOO_MANY_ROWS = edited(LINEAR, ("max = 65_536", "max = 8_388_608"))
ON_MMA = edited(LINEAR, ("BLOCK_M = 64", "BLOCK_M = 32"))
ALLOWED = '\n[allow]\nTG-D1 = "few rows"\n'
CASE = "[tests]\ncases = [ { M = 17, N = 4096, K = 1024 } ]\n"
BROKEN = edited(LINEAR, ("[dims]", "[dims"))
SAME_TILES = "note tile: proved: every declared shape takes the same tiles as before"

EDITS = [
    Edit(
        "rules in another order that picks the same",
        side(edited(NORM, rules(WIDE, NARROW, "{ use = 32 }"))),
        side(edited(NORM, rules(NARROW, WIDE, "{ use = 32 }"))),
        ("note tile: BLOCK_C: its rules stand in another order", SAME_TILES),
    ),
    Edit(
        "rules in another order that picks others",
        side(edited(NORM, rules(WIDE_TOO, NARROW, "{ use = 32 }"))),
        side(edited(NORM, rules(NARROW, WIDE_TOO, "{ use = 32 }"))),
        ("warning occupancy: blocks an SM: 10 → 6, limited by registers", "note tile: BLOCK_C: its rules stand"),
        Level.WARNING,
        ("the same tiles",),
    ),
    Edit(
        "a tile value in other words",
        side(NORM),
        side(edited(NORM, ("16 * threads // BLOCK_C", "threads * 16 // BLOCK_C"))),
        ("note tile: BLOCK_M: 16 * threads // BLOCK_C → threads * 16 // BLOCK_C", SAME_TILES),
    ),
    Edit(
        # Rows up to 64 had the smaller tile before: the condition of the rule is no place of the change.
        "a condition that holds for more shapes",
        side(edited(LINEAR, FEW)),
        side(edited(LINEAR, MORE)),
        (
            "note tile: BLOCK_M: 1 rule of 2 changed",
            "note occupancy: blocks an SM: 1 → 2 (doubled), limited by registers [sm_90a, float16, at M = 1024",
            "note grid: grid: 32 x 8 → 32 x 16 (256 → 512 blocks) [sm_90a, float16, at M = 1024, N = 4096, K = 4096]",
        ),
        never=("where M <= 1024]",),
    ),
    Edit(
        "a third stage that one chip cannot hold",
        side(DEEP),
        side(edited(DEEP, ("stages = 2", "stages = 3"))),
        (
            "error rule: TG-B1 shared-memory-cap newly refuted",
            "together 147456 B; sm_86 gives a block 101376 B, 46080 over",
            "warning occupancy: blocks an SM: 2 → 1 (halved), limited by shared memory [sm_90a",
            "warning occupancy: blocks an SM: 1 → 0, limited by shared memory [sm_86",
            "note compile keys: 4 → 4: 4 new, 4 gone [sm_90a and sm_86]",
        ),
        Level.ERROR,
    ),
    Edit(
        "a chip that can no longer hold it either",
        side(edited(DEEP, ("stages = 2", "stages = 3"))),
        side(edited(DEEP, ("stages = 2", "stages = 5"))),
        (
            "error rule: TG-B1 shared-memory-cap still refuted, with other numbers",
            "together 246784 B; sm_90a gives a block 232448 B, 14336 over",
        ),
        Level.ERROR,
    ),
    Edit(
        "illegal on both sides",
        side(TOO_MANY_ROWS),
        side(edited(TOO_MANY_ROWS, ("stages = 3", "stages = 4"))),
        ("error rule: TG-A5 grid-limits still refuted, as before", "note tile: stages: 3 → 4"),
        Level.ERROR,
        ("newly refuted", "help:"),
    ),
    Edit(
        "illegal before",
        side(TOO_MANY_ROWS),
        side(LINEAR),
        ("warning domain: M narrower; ", "note rule: TG-A5 grid-limits is now proved"),
        Level.WARNING,
    ),
    Edit(
        "rows that TMA cannot reach, beside others that it can",
        side(LINEAR),
        side(edited(LINEAR, ("values = [1024, 4096] }\nK", "values = [1024, 4096, 4100] }\nK"))),
        (
            "warning rule: TG-C4 tma-global-stride newly refuted",
            "a row of `b` is N x 2 B = 8200 B",
            "note domain: N wider",
        ),
        Level.WARNING,
    ),
    Edit(
        "a tile too small for WGMMA",
        side(LINEAR),
        side(ON_MMA),
        (
            "warning instructions: matrix instruction: wgmma n128 k16 → mma.sync n8 k16",
            "warning rule: TG-D1 wgmma-select",
        ),
        Level.WARNING,
    ),
    Edit(
        "a finding that is newly silenced",
        side(ON_MMA),
        side(ON_MMA + ALLOWED),
        ("warning silenced: TG-D1 is newly silenced; it hides: `acc` runs on mma.sync", "reason given: few rows"),
        Level.WARNING,
    ),
    Edit(
        "a rule that is silenced for nothing",
        side(LINEAR),
        side(LINEAR + ALLOWED),
        ("warning silenced: TG-D1 is newly silenced, though it finds nothing today",),
        Level.WARNING,
    ),
    Edit(
        "a finding that an old permission hides",
        side(LINEAR + ALLOWED),
        side(ON_MMA + ALLOWED),
        ("warning silenced: TG-D1, silenced before, hides what it did not: `acc` runs on mma.sync",),
        Level.WARNING,
    ),
    Edit(
        "a permission that is withdrawn",
        side(ON_MMA + ALLOWED),
        side(ON_MMA),
        ("warning rule: TG-D1 wgmma-select no longer silenced",),
        Level.WARNING,
        ("newly refuted",),
    ),
    Edit(
        "a permission without a reason",
        side(LINEAR),
        side(LINEAR + '\n[allow]\nTG-D1 = ""\n'),
        ("error spec: spec-no-reason", "note spec: allow: none → {'TG-D1': ''}"),
        Level.ERROR,
    ),
    Edit(
        "a formula rewritten to an equal one",
        side(NORM),
        side(edited(NORM, ("silu(x * rstd * gamma)", "silu(gamma * (x * rstd))"))),
        (
            "note formula: `y`: silu(x * rstd * gamma) → silu(gamma * (x * rstd)): the same function, by 600 points; only its "
            "rounding may differ",
        ),
    ),
    Edit(
        "another formula",
        side(LINEAR),
        side(edited(LINEAR, ("relu(acc)", "gelu(acc)"))),
        ("warning formula: `c`: relu(acc) → gelu(acc)", "furthest apart of 801 points at acc = "),
        Level.WARNING,
    ),
    Edit(
        # By the tanh form GELU is off by at most 4.8e-4, under one rounding of a float16 there.
        "an approximation of the formula",
        side(edited(LINEAR, ("relu(acc)", "gelu(acc)"))),
        side(edited(LINEAR, ("relu(acc)", "gelu_tanh(acc)"))),
        (
            "warning formula: `c`: gelu(acc) → gelu_tanh(acc)",
            "furthest apart of 801 points at acc = 2.68: 2.67 → 2.671, 0.36",
        ),
        Level.WARNING,
    ),
    Edit(
        "a formula that loses a value",
        side(edited(LINEAR, ("relu(acc)", "sqrt(abs(acc))"))),
        side(edited(LINEAR, ("relu(acc)", "sqrt(acc)"))),
        ("warning formula", "only one of them has a value at acc = -16"),
        Level.WARNING,
    ),
    Edit(
        "another eps",
        side(NORM),
        side(edited(NORM, ("eps = 1e-5", "eps = 1e-6"))),
        ("warning compute: `eps`: 1e-05 → 1e-06: every result changes",),
        Level.WARNING,
    ),
    Edit(
        "the same eps in other digits",
        side(NORM),
        side(edited(NORM, ("eps = 1e-5", "eps = 0.00001"))),
        ("note comments: only comments and layout of the spec changed",),
    ),
    Edit(
        "an accumulator of half precision",
        side(LINEAR),
        side(edited(LINEAR, ('accum = "float32"', 'accum = "float16"'))),
        ("warning compute: `accum`: float32 → float16", "note rule: TG-N2 float16-accumulator newly refuted"),
        Level.WARNING,
    ),
    Edit(
        "a number that callers must pass",
        side(LINEAR),
        side(
            edited(
                LINEAR,
                ("[compute]", '[scalars]\nalpha = { dtype = "float32" }\n[compute]'),
                ("relu(acc)", "relu(alpha * acc)"),
            )
        ),
        ("warning scalar: `alpha` (float32) is new: callers must pass it", "it now takes `alpha`"),
        Level.WARNING,
    ),
    Edit(
        "an operand stored transposed",
        side(LINEAR),
        side(edited(LINEAR, ('"K N"', '"N K"'))),
        (
            "warning tensors: `b`: shape K N → N K",
            "note shared memory: shared memory: the same 74,752 B, laid out otherwise",
        ),
        Level.WARNING,
    ),
    Edit(
        "a golden case that is gone",
        side(LINEAR + CASE),
        side(LINEAR),
        ("warning tests: golden cases of [tests]: 1 gone", "- M = 17, N = 4096, K = 1024"),
        Level.WARNING,
    ),
    Edit(
        "a size of a dynamic dim that is no longer tested",
        side(edited(NORM, ("dynamic = true,", "dynamic = true, values = [1, 4096, 50_000],"))),
        side(edited(NORM, ("dynamic = true,", "dynamic = true, values = [1, 512],"))),
        ("warning tests: M is no longer tested at 4,096 and 50,000", "note domain: M same sizes; "),
        Level.WARNING,
    ),
    Edit(
        "a golden case more",
        side(LINEAR),
        side(LINEAR + CASE),
        ("note tests: golden cases of [tests]: 1 new", "+ M = 17, N = 4096, K = 1024"),
    ),
    Edit(
        "a domain in other words",
        side(NORM),
        side(edited(NORM, ('"C % 64 == 0 and C <= 1024"', '"not (C > 1024 or C % 64 != 0)"'))),
        ("note domain: C same sizes; ",),
        never=("wider", "narrower"),
    ),
    Edit(
        # No value under 8192 tells them apart.
        "a domain that loses one size far out",
        side(edited(NORM, ("C % 64 == 0 and C <= 1024", "C % 64 == 0 and C <= 65536"))),
        side(edited(NORM, ("C % 64 == 0 and C <= 1024", "C % 64 == 0 and C <= 65536 and C % 8256 != 0"))),
        ("warning domain: C narrower; ",),
        Level.WARNING,
        ("same sizes",),
    ),
    Edit(
        "listed sizes for a rule that gives the same",
        side(edited(LINEAR, ("values = [1024, 4096] }\nK", "values = [1024, 2048, 3072] }\nK"))),
        side(edited(LINEAR, ("values = [1024, 4096] }\nK", "min = 1024, max = 3072, multiple_of = 1024 }\nK"))),
        ("note domain: N same sizes; ",),
        never=("wider", "narrower"),
    ),
    Edit(
        "another family under the same name",
        side(LINEAR),
        side(edited(NORM, ("norm_silu", "linear"))),
        ("warning family: family: gemm → row_norm", "warning tensors: `a` (M K) is gone"),
        Level.WARNING,
    ),
    Edit(
        "another target for the only one",
        side(LINEAR),
        side(edited(LINEAR, ("sm_90a", "sm_80"))),
        ("warning target: sm_90a dropped", "note target: sm_80 added", "note target: sm_80 new: 73,728 B shared"),
        Level.WARNING,
    ),
    Edit(
        "moved and edited",
        side(LINEAR, path="specs/a/k.toml"),
        side(edited(LINEAR, ("stages = 3", "stages = 4")), path="specs/b/k.toml"),
        ("note kernel: its spec moved", "note stages: stages: 3 → 4"),
        never=("nothing else",),
    ),
    Edit(
        "no TOML any more",
        side(LINEAR),
        side(BROKEN),
        ("error spec: spec-bad-toml", "note spec: the edit, 2 lines", "-[dims]", "+[dims"),
        Level.ERROR,
        ("→ none",),
    ),
    Edit(
        "no TOML on either side",
        side(BROKEN),
        side(edited(BROKEN, ("stages = 3", "stages = 4"))),
        ("error spec: spec-bad-toml", "-stages = 3", "+stages = 4"),
        Level.ERROR,
    ),
    Edit(
        "no TOML before",
        side(BROKEN),
        side(LINEAR),
        (
            "note kernel: the spec could not be read before, and can be now",
            "note rule: proved: 48 obligations of 34 rules",
        ),
        never=("newly proved",),
    ),
    Edit(
        "a letter that is no UTF-8",
        side(LINEAR),
        side(LINEAR.replace("# A linear", "# \xc0 linear").encode("latin-1")),
        ("error spec: spec-not-utf8: the byte 0xc0 is not UTF-8", "note spec: the edit, 2 lines"),
        Level.ERROR,
        ("→ none",),
    ),
    Edit(
        "line ends of another system",
        side(LINEAR),
        side(LINEAR.replace("\n", "\r\n")),
        ("note comments: only comments and layout of the spec changed",),
    ),
    Edit(
        # Only comments are new, but the file can no longer be loaded.
        "a comment that is too long for a spec",
        side(LINEAR),
        side(LINEAR + "# x\n" * 70_000),
        ("error spec: spec-too-large",),
        Level.ERROR,
        ("only comments",),
    ),
    Edit(
        "tensors in another order, which a family does not mind",
        side(LINEAR),
        side(
            edited(
                LINEAR,
                ('a = { shape = "M K", dtype = "float16" }\n', ""),
                ("[compute]", 'a = { shape = "M K", dtype = "float16" }\n\n[compute]'),
            )
        ),
        ("note comments: the spec says the same in another order",),
        never=("arguments",),
    ),
    Edit(
        "winners that are gone",
        side(NORM, LOCK),
        side(NORM),
        (
            "warning tuned: the tuned lock is gone, with 1 winner",
            "sm_90a, M <= 1024: BLOCK_C 64, threads 64; ratio 1.04",
        ),
        Level.WARNING,
    ),
    Edit(
        "a winner that holds for more rows",
        side(NORM, LOCK),
        side(NORM, LOCK.replace("M <= 1024", "M <= 4096")),
        ("note tuned: winner BLOCK_C 64, threads 64: where M <= 1024 → M <= 4096 [sm_90a]",),
        never=("winner gone", "new winner"),
    ),
    Edit(
        "a winner that is illegal, on its line of the lock",
        side(NORM, LOCK),
        side(NORM, LOCK.replace("threads = 64", "threads = 7")),
        ("error rule: TG-A3 threads-whole-warps newly refuted", "note tuned: winner: threads 64 → threads 7"),
        Level.ERROR,
    ),
]


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_an_edit_is_told_with_its_consequences(edit: Edit) -> None:
    found = told(edit.before, edit.after)
    said = lines(found)
    for start in edit.says:
        assert any(line.startswith(start) for line in said), (start, said)
    for text in edit.never:
        assert not any(text in line for line in said), (text, said)
    assert found.level is edit.level
    assert [change.level for change in found.changes] == sorted(
        (change.level for change in found.changes), key=list(Level).index
    )


def test_inputs_that_change_places_are_a_warning_for_who_calls_by_position() -> None:
    bias, residual = 'bias = { shape = "N", dtype = "float32" }\n', 'residual = { shape = "M N", dtype = "float32" }\n'
    text = edited(
        LINEAR, ("c = { shape", f"{bias}{residual}c = {{ shape"), ("relu(acc)", "relu(acc + bias) + residual")
    )
    found = told(side(text), side(edited(text, (bias + residual, residual + bias))))
    (signature,) = [change for change in found.changes if change.subject == "signature"]
    assert signature.level is Level.WARNING
    assert "(a, b, bias, residual) → (a, b, residual, bias)" in signature.text


def test_a_finding_in_the_lock_names_the_lock() -> None:
    found = told(side(NORM, LOCK), side(NORM, LOCK.replace("threads = 64", "threads = 7")))
    places = {(change.file, change.line) for change in found.changes if change.level is Level.ERROR}
    assert places == {("specs/k.tune.toml", 4)}
