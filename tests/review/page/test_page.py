"""The page itself: what stands in it, that it is the same each time, and that a hostile spec stays text."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.review.page.conftest import ROOT, model, spec
from tilegen.plan.cases import cases
from tilegen.review.page import NothingToShowError, comparison_page, kernel_page
from tilegen.review.page.printing import print_page
from tilegen.review.page.selector import tree
from tilegen.spec import load
from tilegen.spec.diagnostic import SpecError
from tilegen.spec.model import Spec

KERNELS = ("gemm_relu", "mla_decode", "rms_silu")
LIMIT = 1_000_000
VOID = {"meta", "link", "br", "input", "img", "hr"}


class Outline(HTMLParser):
    """Ids, links, headings and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.headings: list[int] = []
        self.sources: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == [], self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id"):
            self.ids.append(str(found["id"]))
        if tag == "a":
            self.links.append(str(found["href"]))
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        self.sources += [str(found[name]) for name in ("src", "srcset", "data", "action") if found.get(name)]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1] == tag, (tag, self.open[-4:], self.getpos())
        self.open.pop()


@pytest.mark.parametrize("name", KERNELS)
def test_a_page_is_well_formed_and_every_link_leads_to_something_on_it(name: str) -> None:
    outline = Outline(print_page(model(name)))
    assert len(outline.ids) == len(set(outline.ids))
    assert all(link.startswith("#") and link[1:] in outline.ids for link in outline.links)
    assert outline.sources == []
    # No level of heading is skipped on the way down.
    assert outline.headings[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(outline.headings))


@pytest.mark.parametrize("name", KERNELS)
def test_a_page_stays_under_a_megabyte_and_is_the_same_each_time(name: str) -> None:
    text = print_page(model(name))
    assert len(text.encode()) < LIMIT
    assert text == print_page(model(name))


def test_another_process_gives_the_same_bytes_without_torch_or_tilelang() -> None:
    code = (
        "import hashlib, sys; from tilegen.spec import load; from tilegen.review.page import kernel_page\n"
        "for name in ('mla_decode', 'rms_silu'):\n"
        "    print(hashlib.sha256(kernel_page(load(f'specs/{name}.toml')).encode()).hexdigest())\n"
        "print({'torch', 'tilelang', 'tvm'} & {name.split('.')[0] for name in sys.modules})"
    )
    first, second = (
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for seed in ("1", "2")
    )
    assert first == second
    assert len(first) == 3
    assert first[-1] == "set()"


@pytest.mark.parametrize("name", KERNELS)
def test_every_schedule_and_target_is_drawn(name: str) -> None:
    found = model(name)
    wanted = {(entry.arch, entry.plan.schedule) for entry in found.views}
    drawn = {(entry.view.arch, entry.view.plan.schedule) for entry in found.drawn if entry.kernels}
    assert drawn == wanted


def test_a_case_whose_shapes_are_not_listed_is_drawn_at_one_of_its_own() -> None:
    for name in KERNELS:
        for entry in model(name).views:
            condition = entry.plan.case.condition
            assert entry.sized.shape, entry.name
            assert condition is True or entry.sized.number(condition) is not None


HOSTILE = """\"</script><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7 * 7 }}\""""


def hostile(tmp_path: Path) -> Spec:
    text = (ROOT / "specs" / "gemm_relu.toml").read_text()
    text = text.replace('doc = "relu(a @ b)"', f"doc = {HOSTILE}".replace('""', '"'))
    text = text.replace('doc = "rows of a"', "doc = '<b onclick=alert(3)>rows</b>'")
    text += '\n# </ol></code><script>alert(4)</script>\n[allow]\nTG-D7 = "<i>why</i> & \\"so\\""\n'
    path = tmp_path / "<b>x&y.toml"
    path.write_text(text)
    return load(path)


def test_text_of_a_spec_stays_text(tmp_path: Path) -> None:
    text = kernel_page(hostile(tmp_path))
    outline = Outline(text)
    assert text.count("<script") == 2
    assert "<img" not in text
    assert "<b onclick" not in text
    assert "49" not in re.findall(r'<p class="lead">(.*)</p>', text)[0]
    assert outline.sources == []


def test_the_policy_allows_the_pages_own_script_alone() -> None:
    text = print_page(model("mla_decode"))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "default-src &#39;none&#39;" in policy[1]
    assert re.search(r"script-src &#39;sha256-[A-Za-z0-9+/=]{44}&#39;", policy[1])
    assert "http" not in policy[1]


BROKEN = sorted((ROOT / "tests" / "check" / "broken").glob("*.toml"))


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_every_broken_spec_that_can_be_read_gets_a_page(path: Path) -> None:
    try:
        found = load(path)
    except SpecError:
        pytest.skip("it cannot be read")
    Outline(kernel_page(found))


def test_a_failing_spec_gets_a_page_that_says_why() -> None:
    text = kernel_page(load(ROOT / "tests" / "check" / "broken" / "bfloat16_accumulator.toml"))
    Outline(text)
    assert 'id="findings"' in text
    assert "error TG-" in text
    assert "There is no source: the spec fails its checks" in text


def test_what_a_spec_does_not_have_is_told() -> None:
    for options, message in (
        ({"target": "sm_70"}, "gemm_relu has no target sm_70; it has sm_90a, sm_80"),
        (
            {"case": 99},
            f"gemm_relu has {len(list(cases(spec('gemm_relu'), 'sm_90a')))} cases on sm_90a, and no case 99",
        ),
        ({"dtype": "int8"}, "gemm_relu has no tensor of int8; it has bfloat16, float16"),
    ):
        with pytest.raises(NothingToShowError, match=re.escape(message)):
            kernel_page(spec("gemm_relu"), **options)  # type: ignore[arg-type]


def test_lines_of_the_source_lead_to_the_lines_of_the_spec_that_decide_them() -> None:
    found = model("mla_decode").listing
    scale = next(line for line in found.source if "return (D_nope + D_rope) ** -0.5" in line.text)
    decided = {link.line: link.why for link in scale.links}
    at = next(line for line in found.spec if line.text.startswith("scale = "))
    assert at.number in decided
    assert decided[at.number].startswith("compute.scale: ")
    # And back: the line lies in one of the runs that the line of the spec leads to.
    assert any(link.line <= scale.number <= (link.last or link.line) for link in at.links)


def test_an_expression_is_written_as_lists() -> None:
    from tilegen.expr import ceil_div, compare, maximum, multiply, symbol

    m = symbol("M")
    assert tree(multiply(ceil_div(m, 128), 4)) == ["*", 4, ["ceildiv", "M", 128]]
    assert tree(compare("<=", m, 16)) == ["<=", "M", 16]
    assert tree(maximum(m, 2))[0] == "max"
    assert tree(7) == 7
    assert tree(True) is True


def changed(tmp_path: Path, name: str, old: str, new: str) -> Spec:
    text = (ROOT / "specs" / f"{name}.toml").read_text()
    assert old in text
    path = tmp_path / f"{name}.toml"
    path.write_text(text.replace(old, new))
    lock = ROOT / "specs" / f"{name}.tune.toml"
    if lock.exists():
        (tmp_path / lock.name).write_bytes(lock.read_bytes())
    return load(path)


def test_two_states_stand_side_by_side_with_what_changed(tmp_path: Path) -> None:
    head = changed(
        tmp_path, "gemm_relu", '{ use = 6, when = "BLOCK_N == 128" }', '{ use = 4, when = "BLOCK_N == 128" }'
    )
    text = comparison_page(spec("gemm_relu"), head)
    Outline(text)
    assert len(text.encode()) < LIMIT
    assert "2 cases changed" in text
    assert all(after <= before + 1 for before, after in itertools.pairwise(Outline(text).headings))
    assert "Unchanged: sm_90a 1-6, 9-11; sm_80, every case." in text
    # 6 and 4 stages of 128 x 64 and 64 x 128 halves, 128 x 128 of C, and the counter's place.
    assert "<mark>230,416</mark>" in text
    assert "<mark>164,880</mark>" in text
    assert "<mark>stages 4</mark>" in text
    assert '<li class="removed">' in text


def test_a_kernel_that_came_or_went_has_an_empty_side() -> None:
    for states in ((None, spec("mla_decode")), (spec("mla_decode"), None)):
        text = comparison_page(*states)
        Outline(text)
        assert "The kernel is not there." in text
    with pytest.raises(ValueError, match="no state"):
        comparison_page(None, None)


def test_a_state_compared_with_itself_has_no_change() -> None:
    text = comparison_page(spec("mla_decode"), spec("mla_decode"))
    assert "0 cases changed. Unchanged: every case." in text
    assert text.count("No line differs.") == 2
