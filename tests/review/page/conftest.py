"""The kernels of specs/ as pages see them, each planned once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tilegen.plan.model import KernelPlan
from tilegen.review.page.model import PageModel, page_model
from tilegen.review.page.sized import SizedPlan
from tilegen.review.page.views import View
from tilegen.spec import load
from tilegen.spec.model import Spec

ROOT = Path(__file__).parents[3]
PROJECT = ROOT / "tests" / "cli" / "project" / "specs"


@cache
def spec(name: str, folder: Path = ROOT / "specs") -> Spec:
    return load(folder / f"{name}.toml")


@cache
def model(name: str, folder: Path = ROOT / "specs") -> PageModel:
    return page_model(spec(name, folder))


def view(name: str, id: str, folder: Path = ROOT / "specs") -> View:
    return next(entry for entry in model(name, folder).views if entry.id == id)


def with_tiles(name: str, arch: str, **tiles: object) -> View:
    """The first view on a chip with these tile values, whatever its number is."""
    return next(e for e in model(name).views if e.arch == arch and tiles.items() <= e.plan.tiles.items())


def main(view: View) -> tuple[SizedPlan, KernelPlan]:
    """The kernel of a view that has the most buffers, at the shape that it is drawn at."""
    return view.sized, max(view.plan.kernels, key=lambda kernel: len(kernel.buffers))
