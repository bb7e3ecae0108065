"""Whatever the bytes, loading raises SpecError and nothing else, and runs nothing."""

from __future__ import annotations

import builtins
import os
import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.expr.random_expressions import REPEATABLE
from tests.spec.specs import GEMM, MLA, NORM, refusal
from tilegen.spec import Diagnostic, SpecError, load_bytes, render_text, to_json

BASES = (GEMM, NORM, MLA)


def settles(data: bytes) -> None:
    diagnostics: tuple[Diagnostic, ...] | None = None
    try:
        load_bytes(data, "x.toml")
    except SpecError as e:
        diagnostics = e.diagnostics
    assert diagnostics != ()
    for d in diagnostics or ():
        to_json(d)
        render_text([d])


@REPEATABLE
@given(st.binary(max_size=80))
def test_random_bytes(data: bytes) -> None:
    settles(data)


@REPEATABLE
@given(
    st.lists(
        st.sampled_from(
            ['"', "'", "[", "]", "{", "}", "=", ".", ",", "#", "\n", "a", "1", '"""', " ", "[[", "]]", "ä", "\r"]
        ),
        max_size=30,
    ).map("".join)
)
def test_random_toml_tokens(text: str) -> None:
    settles(text.encode())


FRAGMENTS = st.one_of(
    st.sampled_from(
        [
            '"x"',
            "1",
            "-1",
            "true",
            "[]",
            "{}",
            "1979-05-27",
            "1e400",
            "nan",
            "[[1]]",
            '"M"',
            '"M // 0"',
            '"((((("',
            '"C in (1,)"',
            "{ use = 1 }",
            '[{ use = "M", when = "M > 1" }]',
            '"same_as(x)"',
            "'''\n'''",
            '"\\u0000"',
            "0x10",
            '"sm_count"',
            '"float16"',
            "{ values = [1] }",
            '{ shape = "M", dtype = "float16" }',
            '"9**9**9"',
            "9999999999999999999",
        ]
    ),
    st.text(max_size=8).map(lambda t: '"' + re.sub(r'["\\\x00-\x1f\x7f]', "", t) + '"'),
)


@REPEATABLE
@given(st.sampled_from(BASES), st.data())
def test_a_spec_with_any_value_in_place_of_another(base: str, data: st.DataObject) -> None:
    values = [m.span(1) for m in re.finditer(r"= (\"[^\"]*\"|[\w.-]+|\[[^\[\]]*\]|\{[^{}]*\})", base)]
    for start, end in sorted(
        data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True)), reverse=True
    ):
        base = base[:start] + data.draw(FRAGMENTS) + base[end:]
    settles(base.encode())


@REPEATABLE
@given(st.sampled_from(BASES), st.data())
def test_a_spec_with_lines_dropped_doubled_or_swapped(base: str, data: st.DataObject) -> None:
    lines = base.split("\n")
    for _ in range(data.draw(st.integers(1, 3))):
        i, j = data.draw(st.integers(0, len(lines) - 1)), data.draw(st.integers(0, len(lines) - 1))
        kind = data.draw(st.sampled_from(["drop", "double", "swap"]))
        if kind == "drop":
            lines[i] = ""
        elif kind == "double":
            lines.insert(j, lines[i])
        else:
            lines[i], lines[j] = lines[j], lines[i]
    settles("\n".join(lines).encode())


@REPEATABLE
@given(st.sampled_from(BASES), st.data())
def test_a_spec_with_characters_changed(base: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 4))):
        i = data.draw(st.integers(0, len(base) - 1))
        base = base[:i] + data.draw(st.text(max_size=2)) + base[i + data.draw(st.integers(0, 2)) :]
    settles(base.encode("utf-8", "replace"))


CODE = (
    "__import__('os').system('touch {path}')",
    "open('{path}', 'w').close()",
    "(lambda: open('{path}', 'w'))()",
    "{{{{ self.__init__.__globals__ }}}}",
    "{{% import os %}}",
    "x = 1\\nimport os",
    "$(touch {path})",
    "`touch {path}`",
)


@pytest.mark.parametrize("code", CODE)
@pytest.mark.parametrize("base", BASES, ids=["gemm", "norm", "mla"])
def test_code_in_every_string_runs_nothing(base: str, code: str, tmp_path, monkeypatch) -> None:
    path = tmp_path / "written"
    code = code.format(path=path)
    for module, name in ((os, "system"), (os, "popen"), (subprocess, "Popen"), (builtins, "eval"), (builtins, "exec")):
        monkeypatch.setattr(module, name, lambda *_, n=name: pytest.fail(f"{n} was called"))
    strings = [m.span(1) for m in re.finditer(r'"([^"]*)"', base)]
    for start, end in strings:
        refusal(base[:start] + code + base[end:])
    keys = [m.span(1) for m in re.finditer(r"(?m)^(\w+) =", base)]
    for start, end in keys:
        refusal(base[:start] + "'''" + code.replace("\\n", " ") + "'''" + base[end:])
    assert not path.exists()
