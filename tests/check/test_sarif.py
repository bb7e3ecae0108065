"""The SARIF log is valid by models that were generated from the 2.1.0 schema, and tells what a reviewer needs."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as SarifLog

from tilegen.check.formats import as_sarif
from tilegen.check.report import report_on

FOLDER = Path(__file__).parent


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
    SarifLog.model_validate(log)
    assert len(log["runs"][0]["results"]) > 20


@pytest.mark.parametrize("spoil", ["level", "message", "locations", "unknown"])
def test_the_models_refuse_what_the_schema_does(log: dict[str, Any], spoil: str) -> None:
    broken = copy.deepcopy(log)
    result = broken["runs"][0]["results"][0]
    if spoil == "message":
        del result["message"]
    else:
        result[spoil] = "no such thing"
    with pytest.raises(ValueError, match="validation error"):
        SarifLog.model_validate(broken)


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
    SarifLog.model_validate(json.loads(as_sarif([], strict=True)))


def test_a_path_with_blanks_is_a_valid_uri(tmp_path: Path) -> None:
    path = tmp_path / "a spec \u00e9.toml"
    path.write_text("nonsense")
    log = json.loads(as_sarif([report_on(path, cached=False)], strict=False))
    SarifLog.model_validate(log)
    (result,) = log["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].endswith("a%20spec%20%C3%A9.toml")


def test_a_rule_helps_with_its_source_what_happens_without_it_and_a_refused_example(log: dict[str, Any]) -> None:
    rules = {rule["id"]: rule for rule in log["runs"][0]["tool"]["driver"]["rules"]}
    for code, rule in rules.items():
        if code.startswith("TG-"):
            assert "Source: " in rule["help"]["text"]
            assert f"tilegen explain {code}" in rule["help"]["text"]
            assert "**Source:**" in rule["help"]["markdown"]
    assert "```toml" in rules["TG-C2"]["help"]["markdown"]


def test_a_finding_shows_its_arithmetic_and_its_counterexample(log: dict[str, Any]) -> None:
    texts = {result["ruleId"]: result["message"]["text"] for result in log["runs"][0]["results"]}
    assert "272 rows exceed a box of 256" in texts["TG-C2"]
    assert any("smallest: " in text for text in texts.values())


def test_a_finding_that_moved_keeps_its_fingerprint(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    text = (FOLDER / "broken" / "block_n_272_under_tma.toml").read_text()

    def fingerprints() -> list[str]:
        results = json.loads(as_sarif([report_on(path, cached=False)], strict=False))["runs"][0]["results"]
        return [result["partialFingerprints"]["tilegen/v1"] for result in results]

    path.write_text(text)
    before = fingerprints()
    path.write_text("# moved down\n" + text)
    assert fingerprints() == before
