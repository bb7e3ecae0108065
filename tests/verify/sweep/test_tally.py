"""Counting rows, on rows made by hand."""

from tilegen.verify.sweep.report import report
from tilegen.verify.sweep.tally import tally


def row(name, errors=(), outcome="fine", slow=(), **facts):
    return {
        "sample": name,
        "near": "",
        "digest": name,
        "errors": list(errors),
        "slow": list(slow),
        "outcome": outcome,
        "reason": "" if outcome == "fine" else "stopped",
        "facts": [
            {"kernel": "k", "what": what.replace("_", " "), "predicted": predicted, "observed": seen}
            for what, (predicted, seen) in facts.items()
        ],
    }


GOOD = [row(f"a{i}", dynamic_shared_memory=(64, 64), spills=(False, False)) for i in range(30)]
REFUSED = [row(f"r{i}", ["TG-B1"], "does not fit") for i in range(100)]


def test_a_sweep_without_a_fault_holds():
    found = tally(GOOD + REFUSED)
    assert found.holds
    assert found.confusion == {(True, "fine"): 30, (False, "does not fit"): 100}


def test_one_accepted_sample_that_fails_is_too_many():
    found = tally([*GOOD, *REFUSED, row("x", outcome="refused")])
    assert not found.holds
    assert [entry["sample"] for entry in found.accepted_but_failed] == ["x"]


def test_one_in_a_hundred_may_be_rejected_and_compile():
    rejected = row("x", ["TG-D3"])
    assert tally([*GOOD, *REFUSED[:99], rejected]).holds
    assert not tally([*GOOD, *REFUSED[:98], rejected]).holds


def test_a_rule_about_the_run_is_counted_apart():
    found = tally([*GOOD, row("x", ["TG-A4"])])
    assert found.rejected_yet_fine == []
    assert [entry["sample"] for entry in found.rejected_for_the_run] == ["x"]


def test_a_byte_of_shared_memory_is_a_difference():
    assert not tally([*GOOD, row("x", dynamic_shared_memory=(64, 65))]).holds


def test_the_error_of_the_register_estimate_is_the_estimate_less_the_truth():
    found = tally([row("a", registers=(100, 90)), row("b", registers=(80, 100)), row("c", registers=(None, 32))])
    assert found.register_errors == [10, -20]


def test_the_page_names_every_disagreement():
    page = report("gemm", "sm_80", 0, 3, [*GOOD, row("x", outcome="refused"), row("y", dynamic_shared_memory=(64, 65))])
    assert "`x`: refused: stopped" in page
    assert "`y`, k: dynamic shared memory predicted 64, observed 65" in page


def test_samples_that_the_estimate_was_made_with_are_counted_apart():
    seen = {**row("a", spills=(False, True)), "seen": True}
    found = tally([seen, row("b", spills=(True, True))])
    assert found.agreement("spills") == (1, 2)
    assert found.agreement("spills", unseen=True) == (1, 1)
    assert "not made with | 1 of 1 (100.0 %)" in report("gemm", "sm_80", 0, 2, found.rows)


def test_a_page_of_part_of_the_samples_says_how_they_were_picked():
    kept = [{**row("r", ["TG-D3"], "refused"), "refusals_only": True}, row("s", ["TG-D3"], "refused"), row("t")]
    page = report("gemm", "sm_80", 0, 4, kept, {"Picked": "At random."})
    assert "3 of 4 samples are compiled.\nAt random.\n1 of the rejected are refusals from a run" in page
    assert "rejected yet fine are 0 of the other 1" in page
    assert "does not show" not in report("gemm", "sm_80", 0, 3, kept, {"Picked": "At random."})
