"""Which spec of one revision became which of the other, and what only a look at all of a revision can tell."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.review.history import LINEAR, NORM
from tilegen.review.change import Level, SpecDiff
from tilegen.review.diff import diff
from tilegen.review.revisions import Repository, Revision, RevisionError


class Files(Repository):
    """Stands for a repository: the files of each commit by its name."""

    def __init__(self, commits: Mapping[str, Mapping[str, str]]) -> None:
        super().__init__(Path("/"), "")
        self.__dict__["commits"] = commits

    def files(self, commit: str, folders: tuple[str, ...]) -> dict[str, bytes]:
        found = self.__dict__["commits"][commit]
        return {path: text.encode() for path, text in found.items() if path.split("/")[0] in folders}


def compared(before: Mapping[str, str], after: Mapping[str, str]) -> SpecDiff:
    repository = Files({"a": before, "b": after})
    return diff(Revision(repository, "a", "a"), Revision(repository, "b", "b"), ["specs"], "generated", cached=False)


def named(text: str, name: str) -> str:
    return text.replace('"linear"', f'"{name}"')


def states(found: SpecDiff) -> list[tuple[str, str, str]]:
    return [(kernel.status.value, kernel.was, kernel.kernel) for kernel in found.kernels]


def test_a_kernel_renamed_in_a_renamed_file_and_edited_is_one_kernel() -> None:
    after = {"specs/b/lin2.toml": named(LINEAR, "lin2").replace("stages = 3", "stages = 4")}
    found = compared({"specs/a/linear.toml": LINEAR}, after)
    assert states(found) == [("renamed", "linear", "lin2")]
    assert "stages: 3 → 4" in {change.text for change in found.kernels[0].changes}


def test_a_kernel_that_is_gone_and_another_one_that_is_new_are_two() -> None:
    found = compared({"specs/linear.toml": LINEAR}, {"specs/norm.toml": NORM})
    assert sorted(states(found)) == [("added", "", "norm_silu"), ("removed", "", "linear")]


def test_the_likest_is_taken_for_the_renamed_one() -> None:
    far, near = LINEAR.replace("BLOCK_N = 128", "BLOCK_N = 64").replace("stages = 3", "stages = 2"), LINEAR
    after = {"specs/x.toml": named(far, "x"), "specs/y.toml": named(near, "y").replace("stages = 3", "stages = 4")}
    assert ("renamed", "linear", "y") in states(compared({"specs/linear.toml": LINEAR}, after))


def test_a_moved_file_is_no_renamed_kernel_though_only_its_case_changed() -> None:
    found = compared({"specs/Linear.toml": LINEAR}, {"specs/linear.toml": LINEAR})
    assert states(found) == [("moved", "", "linear")]
    assert found.kernels[0].changes[0].text == "its spec moved; nothing else of the spec changed"


def test_kernels_that_swap_their_names_are_compared_under_them() -> None:
    deep = LINEAR.replace("stages = 3", "stages = 4")
    found = compared(
        {"specs/a.toml": LINEAR, "specs/b.toml": named(deep, "deep")},
        {"specs/a.toml": named(LINEAR, "deep"), "specs/b.toml": deep},
    )
    texts = {kernel.kernel: [change.text for change in kernel.changes] for kernel in found.kernels}
    assert "stages: 3 → 4" in texts["linear"]
    assert "stages: 4 → 3" in texts["deep"]


def test_two_specs_of_one_kernel_are_an_error_of_the_one_that_changed() -> None:
    found = compared(
        {"specs/linear.toml": LINEAR}, {"specs/linear.toml": LINEAR, "specs/other.toml": LINEAR + "# more\n"}
    )
    (kernel,) = found.kernels
    assert kernel.path == "specs/other.toml"
    assert kernel.changes[0].level is Level.ERROR
    assert kernel.changes[0].text.startswith("linear is declared by specs/linear.toml and specs/other.toml")


@pytest.mark.parametrize("after", [{}, {"specs/lin2.toml": named(LINEAR, "lin2")}], ids=["removed", "renamed"])
def test_a_generated_folder_that_its_kernel_has_left_is_a_warning(after: dict[str, str]) -> None:
    tree = {"generated/linear/kernel.py": "x = 1\n"}
    (kernel,) = compared({"specs/linear.toml": LINEAR, **tree}, {**after, **tree}).kernels
    texts = {change.text: change.level for change in kernel.changes}
    assert texts["the generated folder of linear is still there: `tilegen build` removes it"] is Level.WARNING


def test_folders_without_any_spec_are_a_mistake_not_a_clean_bill() -> None:
    with pytest.raises(RevisionError, match="neither a nor b has a spec in `specs`"):
        compared({"kernels/linear.toml": LINEAR}, {"kernels/linear.toml": LINEAR})


def test_a_manifest_that_is_none_says_nothing() -> None:
    for text in ("", "[]", '{"kernels": {"linear": 3}}', "{"):
        found = compared({"specs/linear.toml": LINEAR}, {"specs/l.toml": LINEAR, "generated/manifest.json": text})
        assert states(found) == [("moved", "", "linear")]
