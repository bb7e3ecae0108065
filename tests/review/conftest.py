from pathlib import Path

import pytest

from tests.review import history


@pytest.fixture(scope="session")
def _repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return history.build(tmp_path_factory.mktemp("history"))


@pytest.fixture
def repository(_repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository of ten commits, which is the current folder; at the last commit, with nothing changed."""
    monkeypatch.chdir(_repository)
    history.git(_repository, "checkout", "--quiet", "--force", "main")
    history.git(_repository, "clean", "--quiet", "--force", "-d")
    return _repository
