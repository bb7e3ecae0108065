"""Which spec files the words of a command line name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilegen.spec.find import NoSpecError, find_kernel, find_specs


@pytest.fixture(autouse=True)
def _specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "specs/b.toml": 'kernel = "beta"',
        "specs/a.toml": 'kernel = "alpha"',
        "specs/deep/c.toml": 'kernel = "gamma"',
        "specs/.hidden/d.toml": 'kernel = "delta"',
        "specs/a.tune.toml": "",
        "specs/notes.md": "",
        "specs/broken.toml": "= nonsense",
    }.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)


def names(*arguments: str) -> list[str]:
    return [str(path) for path in find_specs(arguments)]


def test_a_folder_gives_its_specs_sorted_and_nothing_else() -> None:
    expected = ["specs/a.toml", "specs/b.toml", "specs/broken.toml", "specs/deep/c.toml"]
    assert names() == expected
    assert names("specs") == expected


def test_paths_and_kernel_names_mix_and_each_spec_comes_once() -> None:
    assert names("beta", "specs/a.toml", "alpha") == ["specs/b.toml", "specs/a.toml"]


def test_a_spec_that_cannot_be_read_is_found_by_its_file_s_name() -> None:
    assert names("broken") == ["specs/broken.toml"]


def test_one_kernel_is_one_file() -> None:
    assert find_kernel("gamma") == Path("specs/deep/c.toml")
    with pytest.raises(NoSpecError, match="`specs` holds 4 specs; name one"):
        find_kernel("specs")


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("alfa", "did you mean `alpha`"),
        ("zzz", "kernels of specs/: alpha, beta"),
        ("specs/.hidden/x", "there is no file"),
    ],
)
def test_what_names_nothing_is_told_with_what_is_near(argument: str, message: str) -> None:
    with pytest.raises(NoSpecError, match=message):
        find_specs([argument])


def test_the_lock_of_a_spec_stands_for_it() -> None:
    assert names("specs/a.tune.toml", "specs/a.toml") == ["specs/a.toml"]
    Path("specs/z.tune.toml").write_text("")
    with pytest.raises(NoSpecError, match=r"z\.tune\.toml is the lock of a spec, and there is no specs/z\.toml"):
        names("specs/z.tune.toml")
