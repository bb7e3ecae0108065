"""Counts the rows of a sweep: verdict against outcome, and each predicted fact against the observed one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import mean, median
from typing import Any

from tilegen.verify.sweep.judge import FINE, REFUSED, UNCOMPILED, UNFIT, UNRENDERED

OUTCOMES = (FINE, UNFIT, UNCOMPILED, REFUSED, UNRENDERED)

AT_RUN_TIME: Mapping[str, str] = {
    "TG-A3": "a shuffle names lanes of a warp that are not there: undefined (PTX ISA)",
    "TG-A4": "setmaxnreg by part of a warp group: undefined (PTX ISA)",
    "TG-A5": "the launch fails",
    "TG-C5": "the tensor map is refused at the first call",
    "TG-D11": "the instruction traps",
    "TG-E5": "wrong numbers",
    "TG-E6": "NaN",
    "TG-E11": "the schedule's protocol is for other tiles: it hangs, or its numbers are wrong",
    "TG-F8": "the sum overflows, or loses its last bits",
    "TG-H2": "the host truncates an extent",
    "TG-N1": "the sum wraps around",
    "TG-S3": "columns are not stored",
    "TG-S4": "rows are not stored, or stored twice",
    "TG-S5": "setmaxnreg.inc waits for ever",
    "TG-S6": "the sum depends on how a tile was cut",
    "TG-S7": "an index wraps around",
}
"""Errors that no compiler can show, and what becomes of the kernel."""

BOUNDS = {"accepted but failed": 0.0, "rejected yet fine": 0.01, "shared memory": 1.0, "path": 0.99, "spills": 0.95}


@dataclass(frozen=True)
class Tally:
    """``rows`` as :func:`tilegen.verify.sweep.judge.judge` gives them."""

    rows: Sequence[Mapping[str, Any]]

    @cached_property
    def confusion(self) -> Mapping[tuple[bool, str], int]:
        """Samples by whether the checker accepts them, and outcome."""
        return Counter((not row["errors"], row["outcome"]) for row in self.rows)

    @property
    def accepted(self) -> list[Mapping[str, Any]]:
        return [row for row in self.rows if not row["errors"]]

    @property
    def rejected(self) -> list[Mapping[str, Any]]:
        return [row for row in self.rows if row["errors"]]

    @property
    def accepted_but_failed(self) -> list[Mapping[str, Any]]:
        return [row for row in self.accepted if row["outcome"] != FINE]

    @property
    def rejected_for_the_run(self) -> list[Mapping[str, Any]]:
        """Rejected, and compiled: a rule of ``AT_RUN_TIME`` says that the kernel does not do what it should."""
        return [row for row in self.rejected if row["outcome"] == FINE and AT_RUN_TIME.keys() & set(row["errors"])]

    @property
    def rejected_yet_fine(self) -> list[Mapping[str, Any]]:
        """Rejected by rules of the compiler alone, and compiled."""
        return [row for row in self.rejected if row["outcome"] == FINE and not AT_RUN_TIME.keys() & set(row["errors"])]

    @cached_property
    def by_rule(self) -> Mapping[str, Mapping[str, int]]:
        """For each rule that refused a sample, the outcomes of those samples."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for row in self.rejected:
            for code in row["errors"]:
                found[code][row["outcome"]] += 1
        return dict(sorted(found.items()))

    def agreement(self, *what: str, accepted: bool = True, unseen: bool = False) -> tuple[int, int]:
        """How many samples have every fact of these kinds as predicted, of how many that show one.

        ``unseen``: of those alone that the estimate of registers was not made with.
        """
        right = total = 0
        for row in self.accepted if accepted else self.rows:
            if unseen and row.get("seen"):
                continue
            facts = [fact for fact in row["facts"] if fact["what"] in what]
            total += bool(facts)
            right += bool(facts) and all(fact["predicted"] == fact["observed"] for fact in facts)
        return right, total

    def disagreeing(self, *what: str) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """Accepted samples with a fact of these kinds that is not as predicted."""
        return [
            (row, fact)
            for row in self.accepted
            for fact in row["facts"]
            if fact["what"] in what and fact["predicted"] != fact["observed"]
        ]

    @property
    def register_errors(self) -> list[int]:
        """Estimate less truth of each kernel whose registers ptxas chose, and that does not spill."""
        return [
            fact["predicted"] - fact["observed"]
            for row in self.accepted
            for fact in row["facts"]
            if fact["what"] == REGISTERS and fact["predicted"] is not None
        ]

    @property
    def holds(self) -> bool:
        """Whether the bounds of the sweep are kept."""
        return all(ok for *_, ok in self.lines)

    @property
    def lines(self) -> list[tuple[str, str, bool]]:
        """What is asked, what was found, and whether that is enough."""
        failed, yet_fine, rejected = len(self.accepted_but_failed), len(self.rejected_yet_fine), len(self.rejected)
        shared, path, spills = (self.agreement(*kinds) for kinds in (SHARED, PATH, (SPILLS,)))
        return [
            ("accepted but failed: 0", f"{failed} of {len(self.accepted)}", failed == 0),
            (
                "rejected yet fine: at most 1 %",
                f"{yet_fine} of {rejected}",
                yet_fine <= BOUNDS["rejected yet fine"] * max(rejected, 1),
            ),
            ("shared memory to the byte: all", _share(shared), _enough(shared, BOUNDS["shared memory"])),
            ("instruction path: at least 99 %", _share(path), _enough(path, BOUNDS["path"])),
            ("spill or no spill: at least 95 %", _share(spills), _enough(spills, BOUNDS["spills"])),
        ]

    @property
    def text(self) -> str:
        lines = [f"{len(self.rows)} samples: {len(self.accepted)} accepted, {len(self.rejected)} rejected"]
        lines += [f"{'ok ' if ok else 'NOT'}  {asked}: {found}" for asked, found, ok in self.lines]
        lines.append(f"registers: {self.register_text}")
        return "\n".join(lines)

    @property
    def register_text(self) -> str:
        errors = self.register_errors
        if not errors:
            return "no kernel whose registers ptxas chose"
        off = sorted(abs(error) for error in errors)
        within = off[int(0.9 * (len(off) - 1))]
        return (
            f"estimate less truth over {len(errors)} kernels: mean {mean(errors):+.1f}, median {median(errors):+g}, "
            f"9 of 10 within {within}"
        )


SHARED = ("dynamic shared memory", "static shared memory")
PATH = ("matrix instruction", "loads", "stores")
WIDTH = "vector width"
SPILLS = "spills"
REGISTERS = "registers"


def tally(rows: Iterable[Mapping[str, Any]]) -> Tally:
    return Tally(tuple(rows))


def _share(part: tuple[int, int]) -> str:
    right, total = part
    return f"{right} of {total}" + (f" ({100 * right / total:.1f} %)" if total else "")


def _enough(part: tuple[int, int], bound: float) -> bool:
    right, total = part
    return right >= bound * total
