"""The two forms of a diagnostic."""

from __future__ import annotations

import json
from pathlib import Path

from tilegen.spec import Diagnostic, Severity, Span, render_text, to_json


def test_text_shows_the_line_a_caret_the_label_notes_and_help(tmp_path: Path) -> None:
    path = tmp_path / "linear.toml"
    path.write_text("\n" * 20 + "BLOCK_N = 272\n")
    d = Diagnostic(
        code="TG-C2",
        name="tma-box-256",
        severity=Severity.ERROR,
        message="the tile of `b` cannot be loaded by TMA",
        span=Span(str(path), 21, 11, 21, 14),
        label="box of `b` is (272, 64) float16\nan extent over 256 must split",
        notes=("for every N of the spec\n(smallest: N = 272)",),
        help=("256 and 320 are the nearest legal values",),
        see="tilegen explain TG-C2",
        related=((Span(str(path), 1, 1, 1, 1), "the spec starts here"),),
    )
    assert render_text([d]).replace(str(tmp_path), "specs") == (
        "error[TG-C2] tma-box-256: the tile of `b` cannot be loaded by TMA\n"
        "  --> specs/linear.toml:21:11\n"
        "   |\n"
        " 1 |\n"
        "   | - the spec starts here\n"
        "21 | BLOCK_N = 272\n"
        "   |           ^^^ box of `b` is (272, 64) float16\n"
        "   |               an extent over 256 must split\n"
        "   = for every N of the spec\n"
        "     (smallest: N = 272)\n"
        "   = help: 256 and 320 are the nearest legal values\n"
        "   = see: tilegen explain TG-C2"
    )


def test_text_holds_without_a_place_and_without_the_file() -> None:
    plain = Diagnostic("spec-unreadable", "unreadable", Severity.ERROR, "cannot read x", None)
    assert render_text([plain]) == "error[spec-unreadable]: cannot read x"
    gone = Diagnostic("TG-A1", "threads", Severity.SLOW, "m", Span("/nonexistent.toml", 3, 2, 3, 4), label="why")
    assert render_text([gone]) == "slow[TG-A1] threads: m\n --> /nonexistent.toml:3:2\n  | why"


def test_control_characters_of_the_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("a = '\x1b[31m\t' # \u202e\n")
    text = render_text([Diagnostic("c", "n", Severity.NOTE, "m", Span(str(path), 1, 5, 1, 7))])
    assert not {"\x1b", "\t", "\u202e"} & set(text)


def test_color_wraps_but_does_not_change_the_text(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("a = 1\n")
    d = Diagnostic("c", "n", Severity.ERROR, "m", Span(str(path), 1, 5, 1, 6), notes=("note",))
    colored = render_text([d], color=True)
    assert "\x1b[1;31m" in colored
    import re

    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == render_text([d])


def test_json_is_plain_and_complete() -> None:
    d = Diagnostic("c", "n", Severity.UNDECIDED, "m", Span("f", 1, 2, 3, 4), related=((Span("f", 5, 6, 7, 8), "r"),))
    assert json.loads(json.dumps(to_json(d))) == {
        "code": "c",
        "name": "n",
        "severity": "undecided",
        "message": "m",
        "span": {"file": "f", "line": 1, "column": 2, "end_line": 3, "end_column": 4},
        "label": "",
        "notes": [],
        "help": [],
        "see": "",
        "related": [{"span": {"file": "f", "line": 5, "column": 6, "end_line": 7, "end_column": 8}, "message": "r"}],
    }
