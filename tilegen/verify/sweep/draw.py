"""Draws the samples: random specs of a family, half of them legal ones moved to within one step of a limit."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

from tilegen.check.checker import settle, spec_findings
from tilegen.check.examples import to_toml
from tilegen.check.result import Result
from tilegen.emit.tree import write_file
from tilegen.spec import SpecError, load_bytes
from tilegen.spec.diagnostic import Severity
from tilegen.spec.model import Spec
from tilegen.targets import target as chip

TRIES = 8
"""Parameters and directions that are tried for a limit; where none is met the draw is repeated."""

LONGEST_WALK = 16
"""Steps in one direction."""


@dataclass(frozen=True)
class Sample:
    """``near`` says which limit the spec lies within one step of, or is empty: ``tile.stages 4 | 5: TG-B1``."""

    family: str
    arch: str
    seed: int
    index: int
    spec: str
    near: str = ""

    @property
    def name(self) -> str:
        return f"{self.family}-{self.arch}-{self.seed}-{self.index}"

    def loaded(self) -> Spec:
        return load_bytes(self.spec.encode(), f"{self.family}.toml")


@dataclass(frozen=True)
class Verdict:
    """Codes of the rules that a spec breaks, by severity."""

    errors: tuple[str, ...]
    slow: tuple[str, ...]
    undecided: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether nothing keeps the spec from being built. What is undecided does not: it only fails ``--strict``."""
        return not self.errors


def verdict_on(spec: Spec) -> Verdict:
    """What the checker says, without the texts and mends of its findings."""
    broken = {(entry.code, entry.severity) for entry in spec_findings(spec)}
    if not broken:
        broken = {_broken(result) for _, results in settle(spec) for result in results if not result.outcome.proved}

    def codes(severity: Severity) -> tuple[str, ...]:
        return tuple(sorted(code for code, kind in broken if kind is severity))

    return Verdict(codes(Severity.ERROR), codes(Severity.SLOW), codes(Severity.UNDECIDED))


def _broken(result: Result) -> tuple[str, Severity]:
    return result.rule.code, result.severity


def drawn(folder: Path, family: str, arch: str, seed: int, count: int, draws: Draws = map) -> list[Sample]:
    """The first ``count`` samples of a seed, those that the folder does not hold drawn by ``draws`` and added to it.

    Where a limit lies is what the checker says, so a later checker may draw others: a sweep that goes on keeps its own.
    """
    path = folder / f"samples-{family}-{arch}-{seed}.json"
    samples = [Sample(**entry) for entry in json.loads(path.read_text(encoding="utf-8"))] if path.exists() else []
    if len(samples) < count:
        samples += draws(partial(draw, family, arch, seed), range(len(samples), count))
        write_file(path, json.dumps([asdict(sample) for sample in samples]).encode())
    return samples[:count]


Draws = Callable[[Callable[[int], Sample], Iterable[int]], Iterable[Sample]]


def draw(family: str, arch: str, seed: int, index: int) -> Sample:
    """Sample ``index`` of a seed. Every even one is a legal spec moved to a limit, on the one side or the other."""
    samples = import_module(f"tilegen.families.{family}.samples")
    random = Random(f"{family} {arch} {seed} {index}")
    to_limit = index % 2 == 0
    while True:
        tables = samples.random_spec(random, chip(arch))
        near, verdict = "", _verdict(tables)
        if verdict is None:
            continue  # not a spec at all: the loader refuses it
        if to_limit:
            if not verdict.accepted:
                continue  # a limit tells most where nothing else is wrong
            found = _moved_to_limit(random, tables, samples.MOVES)
            if found is None:
                continue
            tables, near = found
        return Sample(family, arch, seed, index, to_toml(tables), near)


def _verdict(tables: Mapping[str, Any]) -> Verdict | None:
    """The checker's verdict; None for a spec that does not load."""
    try:
        spec = load_bytes(to_toml(tables).encode(), "sample.toml")
    except SpecError:
        return None
    return verdict_on(spec)


def _moved_to_limit(
    random: Random, tables: dict[str, Any], moves: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, Any], str] | None:
    """The spec on one side or the other of the first limit that a walk along one parameter meets."""
    paths = [path for path in moves if isinstance(_get(tables, path), int)]
    for _ in range(TRIES):
        path = random.choice(paths)
        step = random.choice(moves[path]) * random.choice((1, -1))
        here, verdict = tables, _verdict(tables)
        for _ in range(LONGEST_WALK):
            value = _get(here, path) + step
            if value < 1:
                break
            there = _with(here, path, value)
            changed = _verdict(there)
            if changed is None or verdict is None:
                break
            if (changed.errors, changed.slow) != (verdict.errors, verdict.slow):
                chosen = random.choice((here, there))
                return chosen, f"{path} {value - step} | {value}: {_difference(verdict, changed)}"
            here, verdict = there, changed
    return None


def _difference(before: Verdict, after: Verdict) -> str:
    old, new = ({*verdict.errors, *verdict.slow} for verdict in (before, after))
    return " ".join(sorted(old ^ new)) or "severity"


def _get(tables: Mapping[str, Any], path: str) -> Any:
    """The value at a path; of a dim its one listed value. None where there is none."""
    found: Any = tables
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found[0] if isinstance(found, list) else found


def _with(tables: Mapping[str, Any], path: str, value: int) -> dict[str, Any]:
    changed = copy.deepcopy(dict(tables))
    *keys, last = path.split(".")
    table = changed
    for key in keys:
        table = table[key]
    table[last] = [value] if isinstance(table[last], list) else value
    return changed
