"""The dispatcher: its printed conditions partition every shape, and each path is taken, explained and right."""

from __future__ import annotations

import ast
import importlib
import itertools
import sys
import types
import warnings
from pathlib import Path

import pytest

from tilegen.check.domain import Domain, domain_of
from tilegen.check.prover import prove
from tilegen.emit.rendering import render
from tilegen.expr import Range, all_of, any_of, evaluate, negate, parse_condition, symbol
from tilegen.spec import load, load_bytes
from tilegen.spec.find import specs_in

torch = pytest.importorskip("torch")

ROW_NORM = """\
kernel = "{kernel}"
family = "row_norm"
[dims]
M = {{ dynamic = true, max = 65_536 }}
C = {{ values = [96, 256], also = "C % 32 == 0 and C <= 1024" }}
[tensors]
x     = {{ shape = "M C", dtype = ["float16", "bfloat16"] }}
gamma = {{ shape = "C",   dtype = "same_as(x)" }}
res   = {{ shape = "M C", dtype = "same_as(x)" }}
y     = {{ shape = "M C", dtype = "same_as(x)" }}
[compute]
norm = "{norm}"
y = "{formula}"
[target.sm_80]
[dispatch]
prefer = [
  {{ when = "C in (96, 192) and M > 8", call = "acme_{kernel}:narrow" }},
  {{ when = "M % 4 == 0 or C > 512", call = "acme_{kernel}:wide" }},
]
"""
GEMM = """\
kernel = "{kernel}"
family = "gemm"
[dims]
M = {{ dynamic = true, max = 65_536{m} }}
N = {{ values = [128, 256] }}
K = {{ values = [64] }}
[tensors]
a    = {{ shape = "{a}", dtype = ["float16", "bfloat16"] }}
b    = {{ shape = "{b}", dtype = "same_as(a)" }}
bias = {{ shape = "N", dtype = "float32" }}
row_scale = {{ shape = "M", dtype = "float32" }}
gate = {{ shape = "M N", dtype = "same_as(a)" }}
c    = {{ shape = "M N", dtype = "same_as(a)" }}
[scalars]
alpha = {{ dtype = "float32" }}
[compute]
accum = "float32"
c = "silu(alpha * acc + bias) * gate * row_scale * K ** -0.5"
[target.sm_80]
[dispatch]
prefer = [ {{ when = "M <= 16", call = "acme_{kernel}:skinny" }} ]
"""
FOLDER = Path(__file__).parents[2] / "specs"
OURS = [path.stem for path in specs_in(FOLDER)]
SPECS = {
    "rms": ROW_NORM.format(kernel="rms", norm="rms", formula="silu(x * rstd * gamma) + res"),
    "layer": ROW_NORM.format(kernel="layer", norm="layer", formula="(x - mean) * rstd * gamma + res"),
    "soft": ROW_NORM.format(kernel="soft", norm="softmax", formula="exp(x - row_max) / row_sum * gamma * res"),
    "plain": GEMM.format(kernel="plain", m="", a="M K", b="K N"),
    "turned": GEMM.format(kernel="turned", m=", multiple_of = 8", a="K M", b="N K"),
}
SIZES = {
    "rms": {"M": 8, "C": 96},
    "layer": {"M": 5, "C": 160},
    "soft": {"M": 6, "C": 256},
    "plain": {"M": 20, "N": 128, "K": 64},
    "turned": {"M": 24, "N": 256, "K": 64},
    "mla_decode": {"B": 2, "H": 16, "S": 65, "D_nope": 512, "D_rope": 64},
}


def spec_of(name):
    return load_bytes(SPECS[name].encode(), f"{name}.toml") if name in SPECS else load(FOLDER / f"{name}.toml")


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dispatch")
    for name in SIZES:
        (folder / name).mkdir()
        for file, text in render(spec_of(name)).files.items():
            (folder / name / file).write_text(text)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture
def dispatch(rendered, monkeypatch):
    """``dispatch(name)``: the dispatcher freshly imported, whose tensors claim to lie on an sm_80 GPU."""

    def go(name, on_gpu=True):
        for module in [module for module in sys.modules if module.split(".")[0] == name]:
            monkeypatch.delitem(sys.modules, module)
        found = importlib.import_module(f"{name}.dispatch")
        if on_gpu:
            monkeypatch.setattr(torch.Tensor, "is_cuda", True)
            monkeypatch.setattr(importlib.import_module(f"{name}._runtime"), "arch_of", lambda _index: "sm_80")
        monkeypatch.setattr(found, name, lambda *a, **k: "generated")
        return found

    return go


def inputs(name, dtype=torch.float16, **sizes):
    reference = importlib.import_module(f"{name}.reference")
    return reference.random_inputs(**{**SIZES[name], **sizes}, dtype=dtype)


def offered(monkeypatch, module, *names):
    """Installs a module with these hand-tuned callables; each answers with its name."""
    found = types.ModuleType(module)
    for name in names:
        setattr(found, name, lambda *a, name=name, **k: (name, sorted(k)))
    monkeypatch.setitem(sys.modules, module, found)


def printed_conditions(source, dims):
    """The conditions of PREFERRED as the emitted source has them, parsed, not run."""
    tree = ast.parse(source)
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "Preferred"
    ]
    return [parse_condition(ast.unparse(call.args[1].body), dims) for call in calls]


def printed_domain(source, dims):
    """The condition of DOMAIN for each dim, parsed from the emitted kernel."""
    node = next(
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "DOMAIN"
    )
    entries = zip(node.value.keys, node.value.values, strict=True)
    return {key.value: parse_condition(ast.unparse(value.elts[0].body), dims) for key, value in entries}


@pytest.mark.parametrize("name", sorted({*SPECS, *OURS}))
def test_the_printed_cases_are_proved_disjoint_and_to_cover_every_shape(name):
    """From the predicates as they are printed: each path is taken where its own holds and none before it."""
    spec = spec_of(name)
    files, dims = render(spec).files, tuple(dim.name for dim in spec.dims)
    conditions = printed_conditions(files["dispatch.py"], dims)
    declared = printed_domain(files["kernel.py"], dims)
    assert len(conditions) == len(spec.dispatch)
    whole = Domain({name: Range(1, None) for name in dims}, True, {})
    cases, passed = [], True
    for condition in [*conditions, all_of(*declared.values()), True]:
        cases.append(all_of(passed, condition))
        passed = all_of(passed, negate(condition))
    assert prove(any_of(*cases), whole).proved
    for first, second in itertools.combinations(cases, 2):
        assert prove(negate(all_of(first, second)), whole).proved
    # The generated kernel and the callables before it serve every declared shape: plain torch gets none of them.
    assert prove(any_of(*cases[:-1]), domain_of(spec)).proved
    # And the proof can fail: without the last case some shape is served by none.
    assert not prove(any_of(*cases[:-1]), whole).proved


@pytest.mark.parametrize("name", ["rms", "plain"])
def test_the_printed_conditions_are_those_of_the_spec(name):
    spec = spec_of(name)
    dims = tuple(dim.name for dim in spec.dims)
    printed = printed_conditions(render(spec).files["dispatch.py"], dims)
    for values in itertools.product((1, 4, 8, 9, 16, 17, 96, 192, 513), repeat=len(dims)):
        env = dict(zip(dims, values, strict=True))
        for rule, condition in zip(spec.dispatch, printed, strict=True):
            assert evaluate(rule.when, env) == evaluate(condition, env)
    assert {symbol(name) for name in dims} >= set().union(*(rule.when.free_symbols for rule in spec.dispatch))


@pytest.mark.parametrize(
    ("M", "C", "taken"),
    [
        (16, 96, "acme_rms:narrow"),
        (8, 96, "acme_rms:wide"),
        (3, 1024, "acme_rms:wide"),
        (3, 256, "the generated kernel"),
        (9, 100, "plain torch: the shape is outside the domain"),
    ],
)
def test_the_first_path_that_holds_is_taken(dispatch, monkeypatch, M, C, taken):
    rms = dispatch("rms")
    offered(monkeypatch, "acme_rms", "narrow", "wide")
    assert rms.explain_dispatch(*inputs("rms", M=M, C=C)).startswith(taken)


def test_a_hand_tuned_path_gets_the_arguments_and_out_only_where_it_is_given(dispatch, monkeypatch):
    rms = dispatch("rms")
    offered(monkeypatch, "acme_rms", "narrow", "wide")
    given = inputs("rms", M=16)
    assert rms.rms_dispatch(*given) == ("narrow", [])
    assert rms.rms_dispatch(*given, out=torch.empty_like(given[0])) == ("narrow", ["out"])


def test_a_missing_callable_falls_through_with_one_warning_and_is_explained(dispatch, monkeypatch):
    rms = dispatch("rms")
    offered(monkeypatch, "acme_rms", "wide")
    given = inputs("rms", M=9, C=96)
    with pytest.warns(RuntimeWarning, match="acme_rms:narrow cannot be had") as caught:
        assert rms.rms_dispatch(*given) == "generated"
    assert caught[0].filename == __file__, "the warning points at the caller"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rms.rms_dispatch(*given) == "generated"
    why = rms.explain_dispatch(*given)
    assert why.startswith("the generated kernel (M = 9, C = 96); acme_rms:narrow, preferred where C in (96, 192)")
    assert "cannot be had (AttributeError" in why
    assert rms.rms_dispatch(*inputs("rms", M=16, C=96)) == ("wide", [])


@pytest.mark.parametrize("broken", ["raise RuntimeError('no libcuda')", "narrow = 3", "import no_such_module_at_all"])
def test_a_broken_installation_is_a_missing_callable(dispatch, monkeypatch, tmp_path, broken):
    (tmp_path / "acme_rms.py").write_text(broken)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "acme_rms", raising=False)
    rms = dispatch("rms")
    with pytest.warns(RuntimeWarning, match="cannot be had"):
        assert rms.rms_dispatch(*inputs("rms", M=9, C=96)) == "generated"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", sorted(SIZES))
def test_plain_torch_gives_the_numbers_of_the_reference(dispatch, name, dtype):
    found = dispatch(name, on_gpu=False)
    given = inputs(name, dtype)
    reference = importlib.import_module(f"{name}.reference")
    golden = importlib.import_module(f"{name}._golden")
    expected, tolerance = reference.reference(*given)[:2]
    out = getattr(found, f"{name}_dispatch")(*given)
    if hasattr(reference, "rounded"):
        tolerance = reference.rounded(expected, tolerance, dtype)
    golden.assert_close(out, expected, tolerance, name)
    assert out.dtype is dtype
    into = torch.empty_like(out)
    assert getattr(found, f"{name}_dispatch")(*given, out=into) is into
    assert torch.equal(into, out)


def test_plain_torch_serves_what_the_kernel_cannot(dispatch):
    rms = dispatch("rms")
    x, gamma, res = inputs("rms", M=6, C=256)
    wanted = gamma.clone().requires_grad_()
    for given, why in [
        ((x.double(), gamma.double(), res.double()), "the kernel is for float16 and bfloat16"),
        ((x.T.contiguous().T, gamma, res), "the kernel wants contiguous tensors"),
        ((x[:, :40], gamma[:40], res[:, :40]), "outside the domain"),
    ]:
        assert why in rms.explain_dispatch(*given)
        assert rms.rms_dispatch(*given).shape == given[0].shape
    assert rms.explain_dispatch(x, wanted, res).startswith("the generated kernel")  # which has a gradient
    rms.rms_eager(x, wanted, res).sum().backward()
    assert wanted.grad.isfinite().all()
    deep = rms.rms_eager(x.view(3, 1, 2, 256), gamma, res.view(3, 1, 2, 256))
    assert torch.equal(deep.view(6, 256), rms.rms_eager(x, gamma, res))


def test_plain_torch_takes_ragged_lengths_rows_of_nan_and_sequences_without_keys(dispatch):
    mla = dispatch("mla_decode", on_gpu=False)
    reference = importlib.import_module("mla_decode.reference")
    golden = importlib.import_module("mla_decode._golden")
    q_nope, q_pe, kv = inputs("mla_decode", B=3)
    seq_lens = torch.tensor([40, 0, 65], dtype=torch.int32)
    expected, tolerance, lse, lse_tolerance = reference.reference(q_nope, q_pe, kv, seq_lens, 0.1)
    kv[0, 40:] = torch.nan
    out, out_lse = mla.mla_decode_dispatch(q_nope, q_pe, kv, seq_lens=seq_lens, scale=0.1, return_lse=True)
    golden.assert_close(out, expected, tolerance, "out")
    assert torch.equal(out_lse.isneginf(), lse.isneginf())
    golden.assert_close(out_lse[[0, 2]], lse[[0, 2]], lse_tolerance[[0, 2]], "lse")


@pytest.mark.parametrize("name", ["rms", "plain", "mla_decode"])
def test_a_path_is_decided_by_a_few_dozen_calls(dispatch, monkeypatch, name):
    """In 0.9 to 1.5 microseconds (bench/dispatch.py). Calls are counted, for seconds depend on the machine."""
    found = dispatch(name)
    if name == "rms":
        offered(monkeypatch, "acme_rms", "narrow", "wide")
    given = [tensor for tensor in inputs(name) if isinstance(tensor, torch.Tensor)]
    with torch.no_grad():
        found._path(*given, None)
        calls = calls_of(lambda: found._path(*given, None))
    assert 3 < len(calls) <= 30, calls


def calls_of(work):
    """The names of the Python and C functions that a piece of work calls."""
    names = []

    def note(frame, event, argument):
        if event in ("call", "c_call"):
            names.append(getattr(argument, "__name__", frame.f_code.co_name))

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return names


def test_torch_compile_traces_the_dispatcher_whole(dispatch):
    rms = dispatch("rms", on_gpu=False)
    given = inputs("rms")
    compiled = torch.compile(lambda *given: rms.rms_dispatch(*given) * 2, fullgraph=True, backend="eager")
    assert torch.equal(compiled(*given), rms.rms_dispatch(*given) * 2)
