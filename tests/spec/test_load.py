"""What a spec means once it is loaded."""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.expr.random_expressions import REPEATABLE
from tests.spec.specs import GEMM, MLA, NORM, changed, spec
from tilegen.expr import Range, free_names, parse_condition, parse_integer, symbol
from tilegen.plan.instances import static_shapes
from tilegen.spec import SpecError, Swizzle, load
from tilegen.spec.find import specs_in

FOLDER = Path(__file__).parents[2] / "specs"
SPECS = specs_in(FOLDER)


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.stem)
def test_every_spec_of_the_repository_loads(path: Path) -> None:
    loaded = load(path)
    assert loaded.kernel == path.stem
    assert loaded.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_dims_keep_their_kinds() -> None:
    s = spec(NORM)
    m, c = s.dims
    assert (m.dynamic, m.max, m.values, m.also) == (True, 1024, (), None)
    assert (c.dynamic, c.values, c.also) == (False, (256, 512), parse_condition("C % 32 == 0 and C <= 4096", {"C"}))
    assert s.dim("C") is c
    assert (m.range, c.range) == (Range(1, 1024), Range(1, 4096, 32))
    assert [n for n in (31, 32, 256, 4096, 4128) if c.contains(n)] == [32, 256, 4096]
    assert [n for n in (0, 1, 1024, 1025) if m.contains(n)] == [1, 1024]


def test_a_listed_dim_is_its_list_and_a_range_joins_it() -> None:
    listed = spec(GEMM).dim("N")
    assert (listed.is_listed, listed.range) == (True, Range(512, 1024, 512))
    assert not listed.contains(768)
    mixed = spec(changed(GEMM, ("values = [512, 1024]", "values = [96], min = 128, max = 512, multiple_of = 64"))).dim(
        "N"
    )
    assert (mixed.is_listed, mixed.range) == (False, Range(96, 512, 32))
    assert [n for n in (64, 96, 128, 160, 512, 576) if mixed.contains(n)] == [96, 128, 512]


@st.composite
def dim_tables(draw: st.DrawFn) -> str:
    """A dim that may be listed, ruled, ranged or dynamic, or several of these."""
    keys = {}
    step = draw(st.sampled_from([1, 2, 8]))
    if draw(st.booleans()):
        keys["values"] = str(sorted(draw(st.sets(st.integers(1, 8), min_size=1, max_size=3))))
    if draw(st.booleans()):
        rules = ["H % 8 == 0", "H > 5", "H in (3, 9, 27)", "H % 6 == 0 or H % 4 == 0", "3 < H <= 40 and H != 8"]
        keys["also"] = f'"{draw(st.sampled_from(rules))}"'
    if draw(st.booleans()) or not keys:
        keys |= {"multiple_of": str(step), "min": str(draw(st.integers(1, 9))), "max": str(draw(st.integers(16, 60)))}
    return ", ".join(f"{k} = {v}" for k, v in keys.items())


@REPEATABLE
@given(dim_tables())
def test_the_range_of_a_dim_holds_its_domain(table: str) -> None:
    try:
        dim = spec(changed(MLA, ("H = { values = [16] }", f"H = {{ {table} }}"))).dim("H")
    except SpecError as e:
        assume([d.code for d in e.diagnostics] != ["spec-empty-domain"])
        raise
    domain = [n for n in range(1, 100) if dim.contains(n)]
    assert domain
    for n in domain:
        assert dim.range.lo <= n
        assert dim.range.hi is None or n <= dim.range.hi
        assert n % dim.range.multiple_of == 0


def test_shapes_are_sorted_and_the_only_ones_built_ahead() -> None:
    shapes = "shapes = [{ N = 1024, K = 512 }, { K = 512, N = 512 }]\n[dims]"
    loaded = spec(changed(GEMM, ("[dims]", shapes)))
    assert loaded.shapes == ({"N": 512, "K": 512}, {"N": 1024, "K": 512})
    assert tuple(static_shapes(loaded)) == loaded.shapes == tuple(static_shapes(spec(GEMM)))
    two = ("K = { values = [512] }", "K = { values = [256, 512] }")
    pairs = ("[dims]", "shapes = [{ N = 512, K = 256 }, { N = 1024, K = 512 }]\n[dims]")
    assert len(tuple(static_shapes(spec(changed(GEMM, two))))) == 4
    assert [tuple(shape.values()) for shape in static_shapes(spec(changed(GEMM, two, pairs)))] == [
        (512, 256),
        (1024, 512),
    ]


def test_tensors_have_axes_dtypes_and_roles() -> None:
    s = spec(changed(GEMM, ("[compute]", 'bias = { shape = "N", dtype = "float32" }\n[compute]')))
    assert s.tensor("a").shape == (symbol("M"), symbol("K"))
    assert s.tensor("b").same_as == "a"
    assert s.dtypes("c") == ("float16", "bfloat16")
    assert [(t.name, t.role, t.output) for t in s.tensors] == [
        ("a", "a", False),
        ("b", "b", False),
        ("c", "c", True),
        ("bias", None, False),
    ]


def test_a_transposed_operand_is_known_by_its_shape() -> None:
    s = spec(changed(GEMM, ('shape = "K N"', 'shape = "N K"')))
    assert s.tensor("b").shape == (symbol("N"), symbol("K"))


def test_default_tensors_stand_in_for_those_left_out() -> None:
    s = spec(MLA)
    assert [t.name for t in s.tensors] == ["q_nope", "q_pe", "kv", "seq_lens", "out", "lse"]
    assert s.dtypes("out") == ("float16", "bfloat16")
    assert s.tensor("kv").shape[2] == parse_integer("D_nope + D_rope", {"D_nope", "D_rope"})
    named = spec(MLA + '[tensors]\nlse = { shape = "B H", dtype = "float32" }\n')
    assert [t.name for t in named.tensors] == ["lse", "q_nope", "q_pe", "kv", "seq_lens", "out"]


def test_tile_values_are_rules_read_top_down() -> None:
    s = spec(GEMM)
    first, rest = s.tile["BLOCK_N"].rules
    assert (first.use, first.when, first.when_text) == (256, parse_condition("N % 256 == 0", {"N"}), "N % 256 == 0")
    assert (rest.use, rest.when) == (128, None)
    assert s.tile["threads"].rules[0].use == parse_integer("2 * BLOCK_M", {"BLOCK_M"})
    assert s.tile["policy"].rules[0].use == "square"
    assert s.tile["swizzle"].rules[0].use == Swizzle(panel=10, order="row")
    assert spec(changed(GEMM, ('{ panel = 10, order = "row" }', "false"))).tile["swizzle"].rules[0].use is False


def test_a_word_among_the_numbers_of_a_parameter_stays_a_word() -> None:
    s = spec(
        MLA + '[tile]\nBLOCK_H = 16\nnum_split = [ { use = 1, when = "B * (H // BLOCK_H) >= sm_count" }, '
        '{ use = "auto" } ]\n'
    )
    one, auto = s.tile["num_split"].rules
    assert (one.use, auto.use) == (1, "auto")
    assert one.when == parse_condition("B * (H // BLOCK_H) >= sm_count", {"B", "H", "BLOCK_H", "sm_count"})


def test_a_parameter_of_the_call_may_mention_what_is_known_at_the_call() -> None:
    s = spec(MLA + '[tile]\nnum_split = "max(1, sm_count // B)"\n')
    assert free_names(s.tile["num_split"].rules[0].use) == {"sm_count", "B"}


def test_a_target_overrides_part_of_the_tile() -> None:
    s = spec(GEMM)
    assert [t.arch for t in s.targets] == ["sm_90a", "sm_80"]
    assert s.tile_for("sm_80")["BLOCK_N"].rules[0].use == 128
    assert s.tile_for("sm_80")["BLOCK_M"] is s.tile["BLOCK_M"]
    assert s.tile_for("sm_90a") == s.tile
    chosen = s.schedule_for("sm_80")
    assert chosen is not None
    assert ([rule.use for rule in chosen.rules], s.schedule_for("sm_90a")) == (["plain"], None)
    assert next(iter(s.tile_for("sm_80"))) == "schedule"


def test_without_a_target_the_spec_is_for_sm_90a() -> None:
    assert [t.arch for t in spec(NORM).targets] == ["sm_90a"]


def test_compute_is_the_familys_own_model_with_formulas_parsed() -> None:
    s = spec(NORM)
    assert (s.compute.norm, s.compute.eps, s.compute.accum) == ("rms", 1e-5, "float32")
    assert s.compute.y.text == "x * rstd * gamma"
    assert {n.name for n in s.compute.y.expr.free_symbols} == {"x", "rstd", "gamma"}
    assert spec(changed(MLA, ('"(D_nope + D_rope) ** -0.5"', "0.125"))).compute.scale.expr == 0.125


def test_scalars_dispatch_allow_tests_and_tolerance_are_read() -> None:
    s = spec(
        changed(GEMM, ('"relu(acc)"', '"relu(acc) * alpha"'))
        + """
[scalars]
alpha = { dtype = "float32", doc = "factor" }

[dispatch]
prefer = [ { when = "M <= 16 and N in (512, 1024)", call = "fast.kernels:gemv" }, { call = "other:f" } ]

[allow]
TG-D7 = "n272 is split in two; measured within 1 %"

[tests]
cases = [ { M = 17, N = 512, K = 512, dtype = "bfloat16" }, { M = 1, N = 1024, K = 512 } ]

[tolerance]
rtol = 0.01
reason = "the sum of 512 terms cancels"
"""
    )
    assert [(v.name, v.dtype, v.doc) for v in s.scalars] == [("alpha", "float32", "factor")]
    assert [(p.call, p.when_text) for p in s.dispatch] == [
        ("fast.kernels:gemv", "M <= 16 and N in (512, 1024)"),
        ("other:f", ""),
    ]
    assert s.dispatch[1].when is None
    assert [(a.rule, a.reason) for a in s.allow] == [("TG-D7", "n272 is split in two; measured within 1 %")]
    assert [(t.dims, t.dtype) for t in s.tests] == [
        ({"M": 17, "N": 512, "K": 512}, "bfloat16"),
        ({"M": 1, "N": 1024, "K": 512}, None),
    ]
    assert (s.tolerance.atol, s.tolerance.rtol) == (None, 0.01)


def test_every_field_knows_its_place() -> None:
    s = spec(GEMM)

    def written(path: str) -> str:
        span = s.span(path)
        return GEMM.split("\n")[span.line - 1][span.column - 1 : span.end_column - 1]

    assert written("kernel") == '"gemm_relu"'
    assert written("dims.M.max") == "1024"
    assert written("dims.N.values[1]") == "1024"
    assert written("tile.BLOCK_N[0].when") == '"N % 256 == 0"'
    assert written("tile.swizzle.panel") == "10"
    assert written("target.sm_80.tile.BLOCK_N") == "128"
    assert written("target.sm_90a") == "[target.sm_90a]"
    assert written("tile") == "[tile]"
    # The nearest parent of what is not there.
    assert written("dims.M.multiple_of") == "{ dynamic = true, max = 1024 }"
    assert written("tile.stages") == "[tile]"
    assert s.span("nowhere") == s.span("")
    assert s.has("tile.BLOCK_M")
    assert not s.has("tile.stages")
    key = s.key_span("tile.BLOCK_M")
    assert (key.line, key.column, key.end_column) == (s.span("tile.BLOCK_M").line, 1, 8)
    assert s.tile["BLOCK_N"].rules[1].span == s.span("tile.BLOCK_N[1].use")


def test_a_spec_is_frozen_and_pickles() -> None:
    s = spec(GEMM)
    with pytest.raises(FrozenInstanceError):
        s.kernel = "other"
    copy = pickle.loads(pickle.dumps(s))
    assert copy == s
    assert copy.span("tile.BLOCK_N") == s.span("tile.BLOCK_N")


def test_texts_are_one_line_each() -> None:
    s = spec(changed(GEMM, ('"N % 256 == 0"', '"""N %\n 256 == 0"""'), ('"relu(acc)"', '"""relu(\nacc)"""')))
    assert s.tile["BLOCK_N"].rules[0].when_text == "N % 256 == 0"
    assert s.compute.c.text == "relu( acc)"


def test_a_file_that_cannot_be_read_is_a_specerror(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.toml", tmp_path, Path("a\0b")):
        with pytest.raises(SpecError) as caught:
            load(path)
        assert caught.value.diagnostics[0].code == "spec-unreadable"


def test_importing_the_language_imports_no_sympy_and_loading_no_torch() -> None:
    code = (
        "import sys, tilegen.spec, tilegen.expr\n"
        "assert not {'sympy', 'z3', 'torch', 'tilelang'} & sys.modules.keys()\n"
        "from pathlib import Path\n"
        f"tilegen.spec.load(Path({str(SPECS[0])!r}))\n"
        "assert not {'z3', 'torch', 'tilelang', 'numpy'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
