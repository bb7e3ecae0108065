"""Programs that compile and call TileLang kernels, run with the interpreter in the compiler's place."""

import importlib
import math

import pytest
import tilelang
import tilelang.language as T

from tilegen.interp import WrongKernelError
from tilegen.interp.findings import InvalidKernelError
from tilegen.interp.interpreted import interpreted

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.cpu_only


@tilelang.jit(out_idx=[-1])
def doubled(N, block=64, fault=False):
    M = T.dynamic("M")

    @T.prim_func
    def twice(A: T.Tensor((M, N), "float16"), B: T.Tensor((M, N), "float16")):
        with T.Kernel(T.ceildiv(M, 4), T.ceildiv(N, block), threads=64) as (by, bx):
            tile = T.alloc_fragment((4, block), "float16")
            if not fault:
                T.copy(A[by * 4, bx * block], tile)
            for i, j in T.Parallel(4, block):
                tile[i, j] = tile[i, j] * 2
            T.copy(tile, B[by * 4, bx * block])

    return twice


@tilelang.jit
def summed(X, Y):
    N = T.const("N")
    X: T.Tensor((N,), "float32")
    Y: T.Tensor((N,), "float32")
    Z = T.empty((N,), "float32")
    with T.Kernel(1, threads=32) as _:
        for i in T.Parallel(N):
            Z[i] = X[i] + Y[i]
    return Z


@tilelang.autotune(configs=[{"block": 32}, {"block": 64}])
@tilelang.jit(out_idx=[-1])
def tuned(N, block=16):
    @T.prim_func
    def width(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(T.ceildiv(N, block), threads=32) as b:
            for i in T.Parallel(block):
                if b * block + i < N:
                    B[b * block + i] = A[b * block + i] * block

    return width


def prepared_sum():
    @T.prim_func
    def add_into(A: T.Tensor((64,), "float32"), total: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=32) as _:
            for i in T.Parallel(64):
                T.atomic_add(total[0], A[i])

    return add_into


def test_a_lazy_function_returns_the_outputs_of_out_idx():
    a = torch.randn(10, 128).half()
    with interpreted() as session:
        kernel = doubled(128)
        assert torch.equal(kernel(a), a * 2)
        assert torch.equal(kernel(a[:3]), a[:3] * 2)
    assert [call.kernel for call in session.calls] == ["twice", "twice"]
    assert session.findings == []


def test_an_eager_function_returns_what_it_made_with_empty():
    x, y = torch.randn(2, 100)
    with interpreted():
        assert torch.equal(summed(x, y), x + y)


def test_a_compiled_prim_func_writes_its_arguments_in_place():
    a, total = torch.randn(64), torch.ones(1)
    with interpreted():
        tilelang.compile(prepared_sum())(a, total)
    assert torch.allclose(total, a.sum() + 1, atol=1e-5)


def test_an_autotuned_function_takes_its_first_configuration():
    with interpreted():
        assert torch.equal(tuned(40)(torch.ones(40, dtype=torch.int32)), torch.full((40,), 32, dtype=torch.int32))


@pytest.mark.parametrize("given", [(40, 8), {"N": 40, "block": 8}])
def test_an_autotuned_function_keeps_what_its_caller_gives(given):
    with interpreted():
        kernel = tuned(**given) if isinstance(given, dict) else tuned(*given)
        assert torch.equal(kernel(torch.ones(40, dtype=torch.int32)), torch.full((40,), 8, dtype=torch.int32))


def test_a_profiler_compares_with_a_reference_and_measures_nothing():
    a, total = torch.randn(64), torch.zeros(1)
    with interpreted() as session:
        profiler = tilelang.compile(prepared_sum()).get_profiler()
        assert math.isnan(profiler.do_bench(input_tensors=[a, total]))
        assert math.isnan(importlib.import_module("tilelang.profiler").do_bench(lambda: profiler(a, total), warmup=5))
    assert len(session.calls) == 2


@pytest.mark.parametrize("strict", [True, False])
def test_a_wrong_kernel_raises_or_is_remembered(strict):
    with interpreted(strict=strict) as session:
        kernel = doubled(64, fault=True)
        if strict:
            with pytest.raises(WrongKernelError, match=r"tile\[0, 0\] .* is read before anything writes it"):
                kernel(torch.ones(4, 64).half())
        else:
            kernel(torch.ones(4, 64).half())
    assert {finding.kind for finding in session.errors} == {"uninitialised-read"}


def test_findings_that_are_allowed_are_neither_raised_nor_remembered():
    with interpreted(allow={"uninitialised-read"}) as session:
        doubled(64, fault=True)(torch.ones(4, 64).half())
    assert "uninitialised-read" not in {finding.kind for finding in session.findings}


def test_what_was_compiled_before_is_there_again_afterwards(monkeypatch):
    monkeypatch.setattr(importlib.import_module("tilelang.jit"), "cached", lambda **_: "compiled")
    assert doubled(192) == "compiled"
    with interpreted():
        assert doubled(192) != "compiled"
    assert doubled(192) == "compiled"
    assert doubled(320) == "compiled"


def test_too_few_arguments_are_refused_with_their_names():
    with interpreted(), pytest.raises(InvalidKernelError, match="twice takes A, and got 2 arguments"):
        doubled(64)(torch.ones(4, 64).half(), torch.ones(4, 64).half())


def test_the_source_of_an_interpreted_kernel_is_a_comment():
    with interpreted():
        assert doubled(64).get_kernel_source().startswith("//")
