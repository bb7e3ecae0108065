"""From a page's model to its bytes: jinja with escaping on, the style and the script inline, and a policy that allows
nothing else.

Specs come in pull requests from strangers. Every text of theirs is escaped by jinja; the script stands under its hash, so a
browser runs no other, and loads nothing from anywhere.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tilegen import __version__
from tilegen.review.page.comparison import compared
from tilegen.review.page.model import engineering

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tilegen.review.change import Change
    from tilegen.review.page.comparison import Unreadable
    from tilegen.review.page.model import PageModel


@cache
def environment() -> Environment:
    found = Environment(
        loader=PackageLoader("tilegen.review.page", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(si=engineering, percent=percent, micro=micro)
    found.tests["match_wgmma"] = lambda text: "WGMMA" in text
    return found


def print_page(model: PageModel) -> str:
    """The page of one state."""
    return _render("page.html.jinja", page=model, data=Markup(model.selector))


def print_comparison(
    base: PageModel | Unreadable | None, head: PageModel | Unreadable | None, changes: Sequence[Change] = ()
) -> str:
    """The page of two states, of which at least one is there, with what is said of the step from one to the other."""
    return _render("comparison.html.jinja", pair=compared(base, head), told=changes, version=__version__)


def _render(template: str, **names: Any) -> str:
    style, script = _file("page.css"), _file("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    text = (
        environment().get_template(template).render(script=Markup(script), style=Markup(style), policy=policy, **names)
    )
    return _tidy(text)


@cache
def _file(name: str) -> str:
    text = (resources.files("tilegen.review.page") / "templates" / name).read_text(encoding="utf-8")
    return _tidy(text).rstrip("\n")


def _tidy(text: str) -> str:
    """No blank lines and no indentation: the templates have both for their readers. Code has one element a line."""
    lines = (line.strip(" ") for line in text.split("\n"))
    return "\n".join(line for line in lines if line) + "\n"


def percent(part: float, whole: float) -> str:
    """``part`` of ``whole`` in percent, for a style."""
    return f"{100 * part / whole:.2f}".rstrip("0").rstrip(".") if whole else "0"


def micro(value: float) -> str:
    """Microseconds with three digits."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
