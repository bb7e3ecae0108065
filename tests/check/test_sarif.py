"""The SARIF log has the shape that the 2.1.0 schema asks for.

The schema itself is not at hand offline; what stands here is the part of it that the log uses: required properties, types,
enumerations, and the rules about indices and columns.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tilegen.check.formats import as_sarif
from tilegen.check.report import report_on

FOLDER = Path(__file__).parent

TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
REGION = {
    "type": "object",
    "required": ["startLine", "startColumn", "endLine", "endColumn"],
    "additionalProperties": False,
    "properties": {
        name: {"type": "integer", "minimum": 1} for name in ("startLine", "startColumn", "endLine", "endColumn")
    },
}
LOCATION = {
    "type": "object",
    "required": ["physicalLocation"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "integer", "minimum": 0},
        "message": TEXT,
        "physicalLocation": {
            "type": "object",
            "required": ["artifactLocation", "region"],
            "additionalProperties": False,
            "properties": {
                "artifactLocation": {
                    "type": "object",
                    "required": ["uri"],
                    "properties": {"uri": {"type": "string", "pattern": r"^[A-Za-z0-9._~:/?#@!$&'()*+,;=%-]+$"}},
                },
                "region": REGION,
            },
        },
    },
}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
RULE = {
    "type": "object",
    "required": ["id"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string", "minLength": 1},
        "name": {"type": "string"},
        "shortDescription": TEXT,
        "fullDescription": TEXT,
        "help": TEXT,
        "defaultConfiguration": {"type": "object", "additionalProperties": False, "properties": {"level": LEVEL}},
    },
}
RESULT = {
    "type": "object",
    "required": ["message"],
    "additionalProperties": False,
    "properties": {
        "ruleId": {"type": "string"},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": LEVEL,
        "message": TEXT,
        "locations": {"type": "array", "items": LOCATION},
        "relatedLocations": {"type": "array", "items": LOCATION, "uniqueItems": True},
    },
}
SCHEMA = {
    "type": "object",
    "required": ["version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool"],
                "additionalProperties": False,
                "properties": {
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "additionalProperties": False,
                                "properties": {
                                    "name": {"type": "string"},
                                    "version": {"type": "string"},
                                    "semanticVersion": {"type": "string", "pattern": r"^\d+\.\d+\.\d+"},
                                    "rules": {"type": "array", "items": RULE, "uniqueItems": True},
                                },
                            }
                        },
                    },
                    "results": {"type": "array", "items": RESULT},
                },
            },
        },
    },
}


@pytest.fixture(scope="module")
def log() -> dict[str, Any]:
    specs = [*sorted((FOLDER / "broken").glob("*.toml")), *sorted((FOLDER / "slow").glob("*.toml"))]
    reports = [report_on(path.relative_to(FOLDER.parents[1]), cached=False) for path in specs if path.is_file()]
    found: dict[str, Any] = json.loads(as_sarif(reports, strict=False))
    return found


@pytest.fixture(autouse=True, scope="module")
def _in_the_root() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(FOLDER.parents[1])
        yield


def test_the_log_has_the_shape_of_the_schema(log: dict[str, Any]) -> None:
    jsonschema.validate(log, SCHEMA, cls=jsonschema.Draft7Validator)
    assert len(log["runs"][0]["results"]) > 20


def test_every_index_points_at_the_rule_of_its_id(log: dict[str, Any]) -> None:
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(set(rules)) == len(rules)
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])


def test_every_region_is_forward(log: dict[str, Any]) -> None:
    for result in log["runs"][0]["results"]:
        for location in [*result.get("locations", []), *result.get("relatedLocations", [])]:
            region = location["physicalLocation"]["region"]
            assert (region["startLine"], region["startColumn"]) <= (region["endLine"], region["endColumn"])


def test_a_log_without_findings_is_valid() -> None:
    empty = json.loads(as_sarif([], strict=True))
    jsonschema.validate(empty, SCHEMA, cls=jsonschema.Draft7Validator)


def test_a_path_with_blanks_is_a_valid_uri(tmp_path: Path) -> None:
    path = tmp_path / "a spec \u00e9.toml"
    path.write_text("nonsense")
    jsonschema.validate(json.loads(as_sarif([report_on(path, cached=False)], strict=False)), SCHEMA)
