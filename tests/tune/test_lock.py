"""The lock: written, read back, proved and built like the spec itself, and refused at its line where it is wrong."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tilegen.check.checker import check
from tilegen.check.report import report_on
from tilegen.emit import stamp
from tilegen.emit.artefacts import spec_entry
from tilegen.emit.rendering import render
from tilegen.plan.cases import cases
from tilegen.spec import SpecError, load
from tilegen.spec.find import lock_path
from tilegen.spec.read_lock import WINNER as WINNER_KEYS
from tilegen.tune.write_lock import lock_text, with_winner, without_class, write_lock

SPECS = Path(__file__).parent.parent.parent / "specs"
WINNER = """\
[[winner]]
target = "sm_90a"
when = "N == 8192 and K == 8192 and 129 <= M <= 256"
schedule = "persistent"
tile = { BLOCK_M = 128, BLOCK_N = 256, BLOCK_K = 64, stages = 4, group_m = 4 }
card = "NVIDIA H200"
dtype = "float16"
shape = { M = 256, N = 8192, K = 8192 }
us = 51.2
ratio = 1.043
date = "2026-11-30"
versions = { tilelang = "0.1.15" }
"""


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "gemm_relu.toml"
    shutil.copy(SPECS / "gemm_relu.toml", path)
    return path


def locked(spec, text=WINNER):
    lock_path(spec).write_text(text)
    return spec


def tiles_of(spec):
    namespace = {}
    source = render(load(spec)).files["kernel.py"]
    start = source.index("def tiles(")
    exec(source[start : source.index("\n\n\n", start)], namespace)
    return namespace["tiles"]


def test_a_winner_comes_before_every_rule_where_its_condition_holds_and_nowhere_else(spec):
    before, after = tiles_of(spec), tiles_of(locked(spec))
    assert after("sm_90a", 200, 8192, 8192, 132)["group_m"] == 4
    assert after("sm_90a", 200, 8192, 8192, 132)["schedule"] == "persistent"
    for arch, m, n, k in (
        ("sm_90a", 128, 8192, 8192),
        ("sm_90a", 257, 8192, 8192),
        ("sm_90a", 200, 4096, 8192),
        ("sm_80", 200, 8192, 8192),
    ):
        assert after(arch, m, n, k, 132) == before(arch, m, n, k, 132)


def test_the_cases_of_the_rules_hold_where_no_winner_does(spec):
    won, *rest = cases(load(locked(spec)), "sm_90a")
    assert won.winner == 0
    assert all(case.winner is None for case in rest)


def test_a_lock_is_part_of_the_verdict_the_stamp_the_header_and_the_manifest(spec):
    plain, key = report_on(spec), stamp.key([spec], (), (), "representative")
    digest = load(spec).digest
    locked(spec)
    tuned = load(spec)
    assert report_on(spec).plans == plain.plans + 2, "one plan more for each dtype"
    assert stamp.key([spec], (), (), "representative") != key
    assert tuned.digest != digest
    assert spec_entry(tuned)["lock_sha256"] == tuned.lock.sha256
    assert "gemm_relu.tune.toml" in render(tuned).files["kernel.py"].split('"""')[1]


def test_an_illegal_winner_is_refused_by_the_rules_at_its_line(spec):
    verdict = check(load(locked(spec, WINNER.replace("stages = 4", "stages = 9"))))
    (found,) = [entry for entry in verdict.diagnostics if entry.severity == "error"]
    assert (Path(found.span.file).name, found.span.line) == ("gemm_relu.tune.toml", 5)
    assert "shared memory" in found.message
    assert "4 is the nearest legal value of stages" in found.help


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ('"sm_90a"', '"sm_89"', 2, "`sm_89` is not a target of the spec"),
        ("129 <= M", "129 <= Q", 3, "unknown name `Q`"),
        ('"persistent"', '"persistant"', 4, "persistant"),
        ("group_m", "grop_m", 5, "unknown key `grop_m`"),
        ("stages = 4", 'stages = "K // 2048"', 5, "a value of a winner is fixed"),
        ("stages = 4", "stages = [ { use = 4 } ]", None, None),
        ("stages = 4", "stages = 0", 5, "must be at least 1"),
        ("ratio = 1.043", "ratio = true", 10, "must be a number"),
        ("shape = {", "shape = { M = -1, #", 8, ""),
        ('when = "N', 'wenn = "N', 3, "unknown key `wenn`"),
        ("[[winner]]", "[winner]", 1, "must be a list"),
    ],
)
def test_a_bad_lock_is_refused_with_its_file_and_line(spec, old, new, line, message):
    locked(spec, WINNER.replace(old, new, 1))
    if line is None:
        assert load(spec).lock.winners[0].tiles["stages"] == 4
        return
    with pytest.raises(SpecError) as caught:
        load(spec)
    found = caught.value.diagnostics[0]
    assert Path(found.span.file).name == "gemm_relu.tune.toml"
    assert found.span.line == line
    assert message in found.message


def test_a_winner_may_give_what_the_spec_leaves_to_the_family(spec):
    text = WINNER.replace('"persistent"', '"stream_k"').replace("group_m = 4", "threads = 256, STORE_N = 128")
    assert check(load(locked(spec, text.replace("BLOCK_N = 256", "BLOCK_N = 128")))).ok


def test_what_is_written_is_read_back(spec):
    winners = load(locked(spec)).lock.winners
    write_lock(lock_path(spec), "gemm_relu", winners)
    again = load(spec).lock.winners
    assert [replace(w, span=winners[0].span) for w in again] == list(winners)
    assert lock_text("gemm_relu", again) == lock_path(spec).read_text()


def test_a_new_winner_takes_the_place_of_the_one_of_its_class_and_comes_first(spec):
    (old,) = load(locked(spec)).lock.winners
    other = replace(old, when_text="M == 1")
    newer = replace(old, ratio=2.0)
    assert with_winner((old, other), newer) == (newer, other)
    assert without_class((old, other), "sm_90a", "M == 1") == (old,)


def test_a_lock_without_winners_is_removed(spec):
    locked(spec)
    write_lock(lock_path(spec), "gemm_relu", ())
    assert not lock_path(spec).exists()
    assert load(spec).lock is None


PAGE = (SPECS.parent / "docs/measuring.md").read_text()


def test_the_lock_on_the_page_is_proved_and_every_key_of_a_winner_is_described(spec):
    (text,) = [block.split("```")[0] for block in PAGE.split("```toml\n")[1:]]
    assert check(load(locked(spec, text))).ok
    assert all(f"`{key}`" in PAGE for key in WINNER_KEYS)


def test_check_list_and_show_mention_the_lock(spec):
    from click.testing import CliRunner

    from tilegen.cli import check, show
    from tilegen.cli import list as listing

    locked(spec)
    run = CliRunner().invoke
    assert "1 winner of" in run(check.command, [str(spec)]).stdout
    said = "winner 1 of " + str(lock_path(spec)) + ": NVIDIA H200, 1.043 times as fast as the rules of the spec"
    assert said in run(listing.command, [str(spec)]).stdout
    assert said in run(show.command, [str(spec), "--case", "1"]).stdout


def test_a_winner_that_no_shape_reaches_is_noted_at_its_line(spec):
    verdict = check(load(locked(spec, WINNER + "\n" + WINNER)))
    (found,) = verdict.diagnostics
    assert verdict.ok
    assert (found.code, found.severity, found.span.line) == ("lock-unreached", "note", 14)
