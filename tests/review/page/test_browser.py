"""The page in a browser: no error, no request, no barrier for those who read it otherwise, and a script that agrees.

Skipped where there is no playwright or no Chromium. The accessibility rules are those of axe-core, as the package
axe-playwright-python ships them.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.review.page.conftest import PROJECT, model, spec
from tests.review.page.test_page import changed, hostile
from tilegen.review.change import Change, Level
from tilegen.review.page import comparison_page, kernel_page
from tilegen.review.page.model import engineering
from tilegen.review.page.printing import print_page
from tilegen.spec import load

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe_core = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")

SLOW = [pytest.mark.slow, pytest.mark.nightly]
KERNELS = ("mla_decode", *(pytest.param(name, marks=SLOW) for name in ("gemm_relu", "rms_silu")))
FONT = 9.5
"""Pixels of the least text on a phone."""


def _chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return os.environ.get("CHROMIUM") or next((path for name in names if (path := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        try:
            found = playwright.chromium.launch(executable_path=_chromium(), args=["--no-sandbox"])
        except sync_api.Error as error:
            pytest.skip(f"no Chromium: {str(error).splitlines()[0]}")
        yield found
        found.close()


class Visit:
    """A page that is open in the browser, with what it said and asked for."""

    def __init__(self, browser: Any, folder: Path, text: str, **options: Any) -> None:
        self.file = folder / "page.html"
        self.file.write_text(text, encoding="utf-8")
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.problems.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(self.file.as_uri())

    def violations(self) -> list[str]:
        """What axe finds with everything unfolded. Long listings and tables are cut: their lines are alike, and axe is slow."""
        self.page.evaluate(
            """document.querySelectorAll("details:not(.view)").forEach(e => e.open = true);
               document.querySelectorAll(".code li:nth-child(n+40), tbody tr:nth-child(n+12)").forEach(e => e.remove())"""
        )
        found = axe_core.Axe().run(self.page, options={"resultTypes": ["violations"]}).response["violations"]
        return [f"{entry['id']}: {node['html'][:160]}" for entry in found for node in entry["nodes"][:3]]

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Any:
    return lambda text, **options: Visit(browser, tmp_path, text, **options)


@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("mla_decode", "light"),
        pytest.param("mla_decode", "dark", marks=pytest.mark.slow),
        *(pytest.param(name, scheme, marks=SLOW) for name in ("gemm_relu", "rms_silu") for scheme in ("light", "dark")),
    ],
)
def test_a_page_says_nothing_asks_for_nothing_and_passes_axe(visit: Any, name: str, scheme: str) -> None:
    with visit(print_page(model(name)), color_scheme=scheme) as found:
        assert found.violations() == []
        assert found.problems == []
        assert found.requests == [found.file.as_uri()]


@pytest.mark.slow
@pytest.mark.nightly
def test_two_states_pass_axe_too(visit: Any, tmp_path: Path) -> None:
    head = changed(tmp_path, "mla_decode", "BLOCK_N = 64", "BLOCK_N = 32")
    told = [Change(level, "tile", "BLOCK_N: 64 → 32", "sm_90a", details=("more",), line=19) for level in Level]
    for scheme in ("light", "dark"):
        with visit(comparison_page(spec("mla_decode"), head, changes=told), color_scheme=scheme) as found:
            assert found.violations() == []
            assert (found.problems, found.requests) == ([], [found.file.as_uri()])


def test_what_is_said_of_a_hostile_change_runs_nothing(visit: Any) -> None:
    text = "<img src=x onerror=alert(1)><script>alert(1)</script>"
    told = [Change(Level.ERROR, text, text, text, details=(text,), line=1, file=text)]
    with visit(comparison_page(spec("rms_silu", PROJECT), None, changes=told)) as found:
        found.page.wait_for_timeout(50)
        assert (found.problems, found.requests) == ([], [found.file.as_uri()])
        assert found.page.inner_text("table.told td:last-child").count("alert(1)") == 8


def test_a_hostile_spec_runs_nothing(visit: Any, tmp_path: Path) -> None:
    with visit(kernel_page(hostile(tmp_path))) as found:
        found.page.wait_for_timeout(50)
        assert (found.problems, found.requests) == ([], [found.file.as_uri()])
        assert "alert(1)" in found.page.inner_text("p.lead")


@pytest.mark.parametrize("name", KERNELS)
def test_a_phone_scrolls_down_only_and_its_text_can_be_read(visit: Any, name: str) -> None:
    with visit(print_page(model(name)), viewport={"width": 390, "height": 844}) as found:
        assert found.page.evaluate("document.documentElement.scrollWidth") <= 390
        sizes = found.page.evaluate(
            """[...document.querySelectorAll("body *")].filter(e => e.checkVisibility()
               && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
               .map(e => parseFloat(getComputedStyle(e).fontSize)).filter(size => size > 0)"""
        )
        assert min(sizes) >= FONT


@pytest.mark.parametrize("name", KERNELS)
def test_boxes_are_to_scale(visit: Any, name: str) -> None:
    """Every tile of one picture has its rows and columns at the same two scales, but for lines thinner than a pen."""
    with visit(print_page(model(name))) as found:
        pictures = found.page.evaluate(
            """[...document.querySelectorAll("details.view[open] figure.tilepicture")].map(f =>
               [...f.querySelectorAll("ul.boxes > li")].filter(e => e.checkVisibility()).map(li => {
                 const r = li.querySelector(".rect").getBoundingClientRect(), s = li.style;
                 return [r.width, +s.getPropertyValue("--w"), r.height, +s.getPropertyValue("--h")]; }))"""
        )
        boxes = [box for picture in pictures for box in picture if len(picture) > 1]
        assert boxes
        for picture in pictures:
            for least, at in ((6, 0), (5, 2)):
                ratios = [box[at] / box[at + 1] for box in picture if box[at] > least + 0.5]
                assert not ratios or max(ratios) - min(ratios) < 0.02 * max(ratios)


@pytest.mark.parametrize("name", KERNELS)
def test_no_label_runs_out_of_its_box_or_over_another(visit: Any, name: str) -> None:
    with visit(print_page(model(name))) as found:
        overlaps = found.page.evaluate(
            """[...document.querySelectorAll("details.view[open] ul.boxes, .axis")].flatMap(list => {
                 const texts = [...list.querySelectorAll(".box-text, .axis > span, :scope > span")]
                   .filter(e => e.checkVisibility());
                 const rects = texts.map(e => e.getBoundingClientRect()), found = [];
                 for (let i = 0; i < rects.length; i++) for (let j = 0; j < i; j++) {
                   const a = rects[i], b = rects[j];
                   if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
                     found.push(texts[i].textContent + " / " + texts[j].textContent);
                 } return found; })"""
        )
        assert overlaps == []


@pytest.mark.parametrize("name", KERNELS)
def test_the_script_works_out_what_python_wrote(visit: Any, name: str) -> None:
    written = print_page(model(name))
    with visit(written) as found, visit(written, java_script_enabled=False) as plain:
        for entry in model(name).drawn:
            if not entry.kernels:
                continue
            found.page.evaluate(f"location.hash = '{entry.view.id}'")
            found.page.wait_for_function(f"document.getElementById('{entry.view.id}').open")
            read = f"[...document.querySelectorAll('#{entry.view.id} [data-e]')].map(e => e.textContent)"
            assert found.page.evaluate(read) == plain.page.locator(f"#{entry.view.id} [data-e]").all_text_contents()
            assert f"{entry.view.name}: {entry.view.plan.schedule}" in found.page.inner_text("form output")


def test_a_shape_leads_to_its_case_and_its_numbers(visit: Any) -> None:
    with visit(print_page(model("gemm_relu"))) as found:
        page = found.page
        page.select_option("[data-dim=N]", "4096")
        page.select_option("[data-dim=K]", "4096")
        page.fill("[data-dim=M]", "4096")
        shown = page.locator("details.view[open]")
        assert shown.count() == 1
        assert shown.locator("h3").inner_text().endswith("persistent")
        operations = shown.locator("dt:text-is('Operations') + dd").inner_text()
        assert operations == engineering(2 * 4096**3) == "137 G"
        output = page.inner_text("form output")
        assert re.search(r"At least 139 µs on H200 SXM, bound by tensor cores", output)
        page.fill("[data-dim=M]", "0")
        assert page.inner_text("form output") == "M = 0 is no size."
        page.select_option("[data-field=target]", "sm_80")
        page.fill("[data-dim=M]", "16")
        assert "sm_80, case 1: plain" in page.inner_text("form output")


WIDTHS = """
kernel = "widths"
family = "row_norm"
[dims]
M = { dynamic = true, max = 4096 }
C = { values = [1024, 4096] }
[tensors]
x = { shape = "M C", dtype = ["float16", "float32"] }
y = { shape = "M C", dtype = "same_as(x)" }
[compute]
norm = "softmax"
y = "exp(x - row_max) / row_sum"
[target.sm_90a]
[target.gfx942]
"""


def test_dtypes_of_other_widths_are_cases_of_their_own(visit: Any, tmp_path: Path) -> None:
    path = tmp_path / "widths.toml"
    path.write_text(WIDTHS)
    with visit(kernel_page(load(path))) as found:
        page = found.page
        page.select_option("[data-field=dtypes]", "float32")
        heading = page.locator("details.view[open] h3").first
        assert heading.inner_text() == "sm_90a, case 1, float32: one_pass"
        page.evaluate("location.hash = 'gfx942-1-1'")
        page.wait_for_function("document.getElementById('gfx942-1-1').open")
        assert page.input_value("[data-field=dtypes]") == "float16"
        assert page.input_value("[data-field=target]") == "gfx942"
        assert found.problems == []


def test_without_the_script_every_case_can_be_unfolded(visit: Any) -> None:
    with visit(print_page(model("mla_decode")), java_script_enabled=False) as found:
        views = found.page.locator("details.view")
        assert views.count() == len(model("mla_decode").drawn)
        assert not found.page.locator("form.choose").is_visible()
        closed = views.nth(1)
        assert closed.locator("summary").first.is_visible()
        closed.locator("summary").first.click()
        assert closed.locator("figure").first.is_visible()


def test_the_keyboard_reaches_what_scrolls_and_focus_is_seen(visit: Any) -> None:
    with visit(print_page(model("mla_decode"))) as found:
        page = found.page
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        hidden = page.evaluate(
            """[...document.querySelectorAll("*")].filter(e => e.scrollWidth > e.clientWidth + 1
               && ["auto", "scroll"].includes(getComputedStyle(e).overflowX) && e.tabIndex < 0).length"""
        )
        assert hidden == 0
