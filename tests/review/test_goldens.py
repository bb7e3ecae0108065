"""Committed goldens are compared entry by entry, also where the tiles changed."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from tilegen.review.goldens import golden_changes

FOLDER = Path(__file__).parents[2] / "generated" / "gemm_relu"


def folder() -> tuple[dict[str, bytes], dict[str, Any], tuple[str, str]]:
    files = {path.relative_to(FOLDER).as_posix(): path.read_bytes() for path in FOLDER.rglob("*") if path.is_file()}
    facts = json.loads(files["golden/facts.json"])
    return files, facts, (facts["spec"]["sha256"], facts["spec"].get("lock_sha256", ""))


def told(edit: Any) -> list[tuple[str, str]]:
    """What is said once ``edit`` has changed the facts of the generated gemm."""
    before, facts, digest = folder()
    changed = copy.deepcopy(facts)
    edit(changed)
    after = {**before, "golden/facts.json": json.dumps(changed).encode()}
    return [(change.level.value, change.text) for change in golden_changes(before, after, *digest)]


def first_on(facts: Any, arch: str) -> Any:
    return next(entry for entry in facts["lowering"] if entry["key"]["arch"] == arch)


def test_the_same_goldens_say_nothing() -> None:
    assert told(lambda facts: None) == []


def test_a_lost_wgmma_is_a_warning_with_its_count() -> None:
    def edit(facts: Any) -> None:
        first_on(facts, "sm_90a")["facts"]["instructions"].update(wgmma=0, mma=1)

    assert told(edit) == [("note", "mma: 0 → 1"), ("warning", "wgmma: 1 → 0")]


def test_new_spills_are_a_warning_and_registers_a_note() -> None:
    def edit(facts: Any) -> None:
        (usage,) = first_on(facts, "sm_90a")["resources"]["kernels"].values()
        usage.update(registers=usage["registers"] + 9, spill_bytes=64)

    assert ("warning", "spills: 0 → 64 B") in told(edit)
    assert [level for level, text in told(edit) if text.startswith("registers")] == ["note"]


def test_an_instance_whose_tiles_changed_is_still_compared() -> None:
    def edit(facts: Any) -> None:
        entry = first_on(facts, "sm_90a")
        entry["key"]["stages"] = 4
        entry["name"] += "-4"
        next(iter(entry["facts"]["kernels"].values()))["shared_memory"] = 1

    assert [text for _, text in told(edit)] == ["shared memory: 165,904 → 1 B"]


def test_goldens_of_another_state_of_the_spec_are_a_warning() -> None:
    files, _, _ = folder()
    (change,) = golden_changes(files, files, "0" * 64)
    assert "run `tilegen build`" in change.text
    assert change.level.value == "warning"


def test_changed_outputs_are_named() -> None:
    files, _, digest = folder()
    name = next(name for name in files if name.endswith(".npy"))
    (change,) = golden_changes(files, {**files, name: b"other"}, *digest)
    assert change.text == "expected outputs: 1 array changed"
    assert change.details == (Path(name).stem,)


def test_goldens_that_are_no_json_count_as_absent() -> None:
    files, _, digest = folder()
    (change,) = golden_changes(files, {**files, "golden/facts.json": b"{"}, *digest)
    assert "gone" in change.text


def edited_by(change: Any) -> list[tuple[str, str]]:
    """What is said once ``change`` has had its way with the generated folder, of which the manifest knows the hashes."""
    before, _, digest = folder()
    manifest = json.loads((FOLDER.parent / "manifest.json").read_text())
    after = dict(before)
    change(after)
    found = golden_changes(before, after, *digest, manifest["kernels"]["gemm_relu"]["files"])
    return [(entry.level.value, entry.text) for entry in found]


def test_a_file_edited_by_hand_is_a_warning_golden_test_included() -> None:
    def change(files: dict[str, bytes]) -> None:
        for name in ("kernel.py", "test_gemm_relu.py"):
            files[name] += b"# by hand\n"

    text = "edited by hand, and `tilegen build` would write over it: kernel.py and test_gemm_relu.py"
    assert edited_by(change) == [("warning", text)]


def test_other_line_ends_are_told_apart_from_an_edit() -> None:
    def change(files: dict[str, bytes]) -> None:
        files["api.py"] = files["api.py"].replace(b"\n", b"\r\n")

    ((level, text),) = edited_by(change)
    assert (level, text.split(" (")[0]) == ("warning", "other line ends than the build wrote")
    assert text.endswith(": api.py")


def test_a_file_that_no_build_wrote_and_one_that_is_missing_are_named() -> None:
    def change(files: dict[str, bytes]) -> None:
        files["notes.py"] = b""
        files["aot/index.json"] = b"{}"  # of `tilegen build --aot`
        del files["module.py"]

    assert edited_by(change) == [
        ("warning", "no build wrote it, and the next removes it: notes.py"),
        ("warning", "missing from the generated folder: module.py"),
    ]
