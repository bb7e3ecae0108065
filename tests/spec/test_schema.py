"""The JSON schema agrees with the loader about structure."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.spec.specs import GEMM, MLA, NORM, changed
from tests.spec.test_refused import CASES
from tilegen import families
from tilegen.spec import keys
from tilegen.spec.find import specs_in
from tilegen.spec.schema import schema
from tilegen.spec.starter import starter

FOLDER = Path(__file__).parents[2] / "specs"
SPECS = specs_in(FOLDER)
STRUCTURAL = ("spec-unknown-key", "spec-wrong-type", "spec-missing-key")


@pytest.fixture(scope="module")
def validator() -> Any:
    made = schema()
    jsonschema.Draft7Validator.check_schema(made)
    return jsonschema.Draft7Validator(made)


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_the_specs_of_the_repository_are_valid(validator: Any, path: Path) -> None:
    validator.validate(tomllib.loads(path.read_text()))


@pytest.mark.parametrize("base", [GEMM, NORM, MLA])
def test_the_bases_are_valid(validator: Any, base: str) -> None:
    validator.validate(tomllib.loads(base))


# Which dims a shape must name depends on those that the spec makes dynamic, which a schema cannot say.
REFUSED = [c for c in CASES if c[3] in STRUCTURAL and c[4] != "nan" and not c[2].startswith("shapes")]


@pytest.mark.parametrize("case", REFUSED, ids=lambda c: c[2][:40])
def test_what_the_loader_refuses_by_structure_the_schema_refuses(validator: Any, case: tuple[str, ...]) -> None:
    base, old, new, *_ = case
    assert not validator.is_valid(tomllib.loads(changed(base, (old, new))))


def test_every_key_and_parameter_has_a_description(validator: Any) -> None:
    def bare(value: Any, path: str) -> list[str]:
        if not isinstance(value, dict):
            return [p for v in value for p in bare(v, path)] if isinstance(value, list) else []
        found = [
            f"{path}.{name}"
            for name, sub in value.get("properties", {}).items()
            if "description" not in sub and "$ref" not in sub
        ]
        return found + [p for name, sub in value.items() for p in bare(sub, f"{path}.{name}")]

    assert bare(validator.schema, "") == []


def test_every_family_and_variant_has_an_alternative(validator: Any) -> None:
    titles = [a["title"] for a in validator.schema["oneOf"]]
    expected = []
    for name in families.names():
        section = families.section(name)
        expected += ([name] if section.compute else []) + list(section.variants)
    assert titles == expected


@pytest.mark.parametrize("family", families.names())
def test_a_starter_is_valid_and_keeps_to_known_keys(validator: Any, family: str) -> None:
    section = families.section(family)
    for variant, s in [*([(None, section)] if section.compute else []), *section.variants.items()]:
        values = tomllib.loads(starter(s, family, variant, "mine"))
        validator.validate(values)
        assert values.keys() <= keys.SPEC.keys()
