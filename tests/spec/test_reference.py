"""docs/spec.md: every example does what the page says, and nothing of the language is missing from it."""

from __future__ import annotations

import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import pytest

from tests.spec.specs import refusal, spec
from tilegen import families, targets
from tilegen.check.checker import check
from tilegen.expr.formula import FUNCTIONS
from tilegen.spec import keys
from tilegen.spec.reference import with_families
from tilegen.spec.schema import schema
from tilegen.spec.starter import starter

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "spec.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(
    r"(?:<!-- in: (?P<base>\w+)(?:; refused: (?P<code>[\w-]+))? -->\n)?```toml\n(?P<text>.*?)```", re.S
)
EXAMPLES = [(m["base"], m["code"], m["text"]) for m in EXAMPLE.finditer(PAGE)]
SECTIONS = {"gemm": ("gemm", None), "row_norm": ("row_norm", None), "mla_decode": ("attention", "mla_decode")}


def whole(base: str | None, fragment: str) -> str:
    """The fragment within a starter spec, with its tables and header keys in place of the starter's."""
    if base is None:
        return fragment
    family, variant = SECTIONS[base]
    section = families.section(family)
    parts = _tables(starter(section.variants[variant] if variant else section, family, variant, "example"))
    for name, body in _tables(fragment).items():
        if name == "":
            given = tomllib.loads(body)
            kept = [line for line in parts[""].split("\n") if line.split(" ")[0] not in given]
            parts[""] = "\n".join(kept) + "\n" + body
        else:
            parts[name] = body
    if any(name.startswith("target.") for name in _tables(fragment)):
        parts = {n: b for n, b in parts.items() if not n.startswith("target.") or n in _tables(fragment)}
    return "\n".join(parts.values())


def _tables(text: str) -> dict[str, str]:
    """The text of each table by its name, header included; the keys above the first one under ""."""
    tables = {"": ""}
    name = ""
    for line in text.split("\n"):
        header = re.match(r"\[([\w.]+)\]", line)
        if header:
            name = header[1]
        tables[name] = tables.get(name, "") + line + "\n"
    return tables


@pytest.mark.parametrize(("base", "code", "text"), EXAMPLES, ids=[f"{i}-{e[0]}" for i, e in enumerate(EXAMPLES)])
def test_an_example_loads_or_is_refused_as_the_page_says(base: str | None, code: str | None, text: str) -> None:
    if code is None:
        spec(whole(base, text))
        jsonschema.Draft7Validator(schema()).validate(tomllib.loads(whole(base, text)))
    else:
        assert [d.code for d in refusal(whole(base, text))] == [code]


ACCEPTED = [(b, t) for b, code, t in EXAMPLES if code is None]


@pytest.mark.parametrize(("base", "text"), ACCEPTED, ids=[f"{i}-{e[0]}" for i, e in enumerate(ACCEPTED)])
def test_an_example_breaks_no_rule(base: str | None, text: str) -> None:
    loaded = spec(whole(base, text))
    if find_spec(f"tilegen.families.{loaded.family}.plan") is None:
        pytest.skip(f"{loaded.family} has no plan")
    assert [d.code for d in check(loaded).diagnostics if d.severity == "error"] == []


@pytest.mark.slow
@pytest.mark.parametrize(("base", "text"), ACCEPTED, ids=[f"{i}-{e[0]}" for i, e in enumerate(ACCEPTED)])
def test_an_example_builds_and_lowers_as_planned(base: str | None, text: str) -> None:
    """One instance of each: rendered, lowered by TileLang without a GPU, and equal to its plan."""
    from tilegen.emit.artefacts import compile_key
    from tilegen.emit.rendering import factory_parameters, render
    from tilegen.plan.instances import instances
    from tilegen.verify.compare import disagreements
    from tilegen.verify.expected import expected
    from tilegen.verify.pipeline import instruction_patterns
    from tilegen.verify.worker import observe

    loaded = spec(whole(base, text))
    instance = next(instances(loaded, loaded.targets[0].arch))
    parameters = factory_parameters(loaded)
    key = compile_key(instance, parameters)
    [observed] = observe(render(loaded).files["kernel.py"], instruction_patterns(), [key], instance.arch, False)
    assert disagreements(expected(instance), observed) == []


def test_every_toml_block_of_the_page_is_an_example() -> None:
    assert len(EXAMPLES) == PAGE.count("```toml") > 20


TABLES = [(n, t) for n, t in vars(keys).items() if isinstance(t, dict) and n[0] != "_" and n != "DTYPE_ALIASES"]


@pytest.mark.parametrize(("name", "table"), TABLES, ids=[n for n, _ in TABLES])
def test_every_key_is_described_and_shown(name: str, table: dict[str, object]) -> None:
    examples = "\n".join(text for _, _, text in EXAMPLES)
    for key in table:
        assert f"`{key}`" in PAGE or f"`[{key}]`" in PAGE, key
        assert re.search(rf"\b{key}(\.\w+)*( =|\])", examples), key


@pytest.mark.parametrize("base", SECTIONS)
def test_every_key_of_a_family_is_described_and_shown(base: str) -> None:
    family, variant = SECTIONS[base]
    section = families.section(family)
    if variant:
        section = section.variants[variant]
    examples = "\n".join([section.example, *section.examples.values()])
    assert section.compute is not None
    for key in [*section.compute.table(), *section.tile, *section.tensors]:
        assert f"`{key}`" in PAGE, key
        assert re.search(rf"\b{key} +=", examples), key
    for text in section.examples.values():
        assert text in PAGE
    for word in [*section.dims, *section.schedules]:
        assert f"`{word}`" in PAGE, word


def test_the_families_part_of_the_page_is_what_their_sections_say() -> None:
    assert with_families(PAGE) == PAGE, "run python -m tilegen.spec.reference docs/spec.md"


def test_every_family_is_on_the_page() -> None:
    known = {(n, v) for n in families.names() for v in families.section(n).variants}
    known |= {(n, None) for n in families.names() if families.section(n).compute}
    assert known == set(SECTIONS.values())


def test_every_function_dtype_chip_and_error_is_on_the_page() -> None:
    for function in [*FUNCTIONS, "where"]:
        assert f"`{function}(" in PAGE, function
    for word in [*keys.DTYPES, *targets.names()]:
        assert f"`{word}`" in PAGE, word
    sources = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "tilegen" / "spec").glob("*.py"))
    for code in sorted(set(re.findall(r'"(spec-[a-z0-9-]+)"', sources))):
        assert f"`{code}`" in PAGE, code


def test_the_limits_on_the_page_are_those_of_the_code() -> None:
    from tilegen.expr import parse
    from tilegen.spec import document, names, read_tile, reader

    assert document.MAX_BYTES == 256 * 1024
    assert (reader.MAX_ENTRIES, reader.MAX_DIAGNOSTICS, reader.MAX_INTEGER) == (256, 100, 2**63 - 1)
    assert (parse.MAX_LENGTH, parse.MAX_NESTING, parse.MAX_EXPONENT, parse.MAX_DEGREE) == (2000, 40, 8, 64)
    assert (read_tile.MAX_RULES, names.MAX_LENGTH) == (64, 64)
