"""What each step may import: a spec is loaded, planned, checked and rendered without torch and without TileLang."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SPECS = sorted(path for path in (ROOT / "specs").glob("*.toml") if not path.name.endswith(".tune.toml"))


def loaded_by(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after running ``code``."""
    text = f"{code}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    result = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(result.stdout.split())


def test_specs_are_loaded_checked_and_rendered_without_torch_or_tilelang():
    code = (
        "from pathlib import Path\n"
        "from tilegen.spec import load\n"
        "from tilegen.check.checker import check\n"
        "from tilegen.emit.rendering import render\n"
        f"for path in {[str(path) for path in SPECS]}:\n"
        "    spec = load(Path(path))\n"
        "    assert check(spec).ok\n"
        "    render(spec)\n"
    )
    assert not loaded_by(code) & {"torch", "tilelang", "tvm"}


def test_the_command_line_loads_no_command_until_it_is_called():
    assert not loaded_by("import tilegen.cli") & {"torch", "tilelang", "sympy", "z3", "pydantic", "jinja2", "numpy"}


@pytest.mark.parametrize("room", ["expr", "targets", "lowering"])
def test_the_rooms_below_import_nothing_above(room):
    allowed = {"expr": {"expr"}, "targets": {"targets"}, "lowering": {"lowering", "targets"}}[room]
    for path in (ROOT / "tilegen" / room).glob("*.py"):
        for line in path.read_text().splitlines():
            words = line.split()
            if words[:1] in (["from"], ["import"]) and words[1].startswith("tilegen."):
                assert words[1].split(".")[1] in allowed, f"{path.name}: {line}"


def test_generated_code_never_imports_tilegen():
    for path in (ROOT / "generated").rglob("*.py"):
        for line in path.read_text().splitlines():
            assert not line.startswith(("import tilegen", "from tilegen")), f"{path}: {line}"
