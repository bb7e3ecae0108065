"""What the interpreter finds of the mistakes that a kernel's author may make.

``python -m tests.interp.mutation --write docs/truth/faults.md`` plants each mistake of ``mutants`` in kernels of the tests,
one at a time, runs the kernel, and writes how many of each kind are found, change numbers only, or change nothing.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.util
import inspect
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.interp import conftest, kernels, test_layouts, test_macros, test_roles, test_strides
from tests.interp.mutants import Mistake, mistakes, with_mistake, without_faults
from tilegen.interp import InvalidKernelError, UnsupportedError, run
from tilegen.interp.reference import compare

#: At most so many mistakes of one kernel, chosen by a hash of what they change.
MOST = 32
OUTCOMES = ("found", "refused", "numbers only", "no effect")


@dataclass(frozen=True)
class Subject:
    """A right kernel: its factory, and what it is run with."""

    name: str
    factory: Callable[..., Any]
    inputs: dict[str, Any]
    arguments: dict[str, Any]


def subjects() -> Iterator[Subject]:
    for cases, names in (
        (test_macros.CASES, ("row_minimum", "attention", "folded_sum", "moments")),
        (test_strides.CASES, ("batched_product", "column_histogram")),
        (test_layouts.CASES, ("swizzled_epilogue", "replicated_weights")),
    ):
        for name in names:
            normal, rng = _random()
            case = cases[name]
            yield Subject(name, case.factory, {**case.inputs(normal, rng), **case.numbers}, {})
    normal, _ = _random()
    sizes = {"BLOCK_H": 32, "BLOCK_N": 32, "nope": 64, "rope": 32}
    yield Subject("mla_decode", kernels.mla_decode, _half(normal, Q=(2, 32, 64), Q_pe=(2, 32, 32), KV=(2, 100, 1, 64),
                  K_pe=(2, 100, 1, 32)), {"heads": 32, **sizes})  # fmt: skip
    yield Subject("producer_consumer", test_roles.producer_consumer, _half(normal, A=(6, 32, 64)), {})
    yield Subject("three_roles", test_roles.three_roles, _half(normal, A=(4, 64, 32), W=(32, 128)), {})
    yield Subject("ping_pong", test_roles.ping_pong, {"A": normal(64)}, {})


def _random() -> tuple[Callable[..., Any], np.random.Generator]:
    rng = np.random.default_rng(7)

    def normal(*shape: int, dtype: str = "float32") -> Any:
        return rng.standard_normal(shape).astype(np.float32).astype(conftest.DTYPES[dtype])

    return normal, rng


def _half(normal: Callable[..., Any], **shapes: tuple[int, ...]) -> dict[str, Any]:
    return {name: normal(*shape, dtype="float16") for name, shape in shapes.items()}


@dataclass(frozen=True)
class Judged:
    """A mistake in a kernel, and what came of it: one of ``OUTCOMES``, and the kinds of the findings."""

    subject: str
    mistake: Mistake
    outcome: str
    kinds: tuple[str, ...]


def judge(subject: Subject, folder: Path) -> Iterator[Judged]:
    """Plants mistakes in one kernel and the macros that it uses."""
    file = Path(inspect.getsourcefile(inspect.unwrap(subject.factory)) or "")
    tree = without_faults(file.read_text(encoding="utf-8"))
    name = subject.factory.__name__
    right = _outputs(subject, _load(ast.unparse(tree), folder / f"{subject.name}_right.py"), name).outputs
    listed = [mistake for function in _used(tree, name) for mistake in mistakes(function)]
    listed.sort(key=lambda mistake: hashlib.sha256(f"{mistake.kind} {mistake.line} {mistake.what}".encode()).digest())
    for number, mistake in enumerate(sorted(listed[:MOST], key=lambda mistake: mistake.line)):
        source = with_mistake(tree, mistake)
        try:
            result = _outputs(subject, _load(source, folder / f"{subject.name}_{number}.py"), name)
        except (InvalidKernelError, UnsupportedError) as error:
            yield Judged(subject.name, mistake, "refused", (type(error).__name__,))
            continue
        except Exception as error:  # what TileLang raises while it traces the kernel
            if "/tilegen/interp/" in inspect.trace()[-1].filename:
                raise
            yield Judged(subject.name, mistake, "refused", (type(error).__name__,))
            continue
        kinds = tuple(sorted({finding.kind for finding in result.findings if finding.kind != "stages"}))
        same = all(name in result.outputs and _agree(result.outputs[name], value) for name, value in right.items())
        yield Judged(subject.name, mistake, "found" if kinds else "no effect" if same else "numbers only", kinds)


def _used(tree: ast.Module, name: str) -> list[ast.FunctionDef]:
    """A function of a file and the functions there that it names, directly or not."""
    top = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    found, waiting = [], [name]
    while waiting:
        node = top.pop(waiting.pop(), None)
        if node is not None:
            found.append(node)
            waiting += [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
    return found


def _load(source: str, path: Path) -> Any:
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _outputs(subject: Subject, module: Any, name: str) -> Any:
    return run(getattr(module, name)(**subject.arguments), subject.inputs)


def _agree(got: Any, expected: Any) -> bool:
    wide = expected.dtype.kind == "f" and expected.itemsize >= 4
    return compare("output", got, expected, 1e-5 if wide else None).passes


def page(judged: list[Judged]) -> str:
    """The table of outcomes by kind of mistake, what found them, and the mistakes without effect."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for entry in judged:
        counts[entry.mistake.kind][entry.outcome] += 1
    total = Counter(entry.outcome for entry in judged)
    found = Counter(kind for entry in judged if entry.outcome == "found" for kind in entry.kinds)
    rows = [
        f"| {kind} | " + " | ".join(str(counts[kind][outcome]) for outcome in OUTCOMES) + " |"
        for kind in sorted(counts)
    ]
    silent = [
        (entry.subject, entry.mistake.kind, entry.mistake.what.replace("|", "\\|"))
        for entry in judged
        if entry.outcome == "no effect"
    ]
    text = [
        "# Mistakes in kernels, and what the interpreter finds of them",
        "",
        "One mistake at a time in the source of right kernels of the tests, at most 32 in each "
        "(`python -m tests.interp.mutation --write docs/truth/faults.md`). *Found*: at least one diagnostic. *Refused*: "
        "TileLang or the interpreter says that it is no kernel. *Numbers only*: no diagnostic, and the outputs differ, which "
        "is for a reference to find. *No effect*: nothing is found, and the outputs are right within 8 ulp.",
        "",
        f"**{len(judged)} mistakes in {len({entry.subject for entry in judged})} kernels: "
        + ", ".join(f"{total[outcome]} {outcome}" for outcome in OUTCOMES)
        + ".**",
        "",
        "| mistake | " + " | ".join(OUTCOMES) + " |",
        "|---|" + "---:|" * len(OUTCOMES),
        *rows,
        "",
        "By which diagnostic (a mistake may give several): "
        + ", ".join(f"{kind} {count}" for kind, count in found.most_common())
        + ".",
        "",
        "Those without effect:",
        "",
        "| kernel | mistake | where |",
        "|---|---|---|",
        *(f"| {subject} | {kind} | `{what}` |" for subject, kind, what in silent),
    ]
    return "\n".join(text) + "\n"


def judge_all() -> list[Judged]:
    """Every mistake in every subject; the same on every machine."""
    with tempfile.TemporaryDirectory() as folder:
        return [entry for subject in subjects() for entry in judge(subject, Path(folder))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    text = page(judge_all())
    if arguments.write:
        arguments.write.write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
