import json

import pytest

from tilegen.verify import ptxas
from tilegen.verify.ptxas import CompileError, KernelUsage, PtxasFacts, compile_facts, compile_together

OUTPUT = """
ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient \
register resources for the wgmma pipeline in the function 'main_kernel'
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'main_kernel' for 'sm_90a'
ptxas info    : Function properties for main_kernel
    1024 bytes stack frame, 2224 bytes spill stores, 1800 bytes spill loads
ptxas info    : Used 240 registers, used 4 barriers, 1024 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compiling entry function 'combine_kernel' for 'sm_90a'
ptxas info    : Function properties for combine_kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers
"""

SOURCE = 'extern "C" __global__ void scale(float *x) { x[threadIdx.x] *= 2; }\n'

needs_nvcc = pytest.mark.skipif(ptxas.nvcc() is None, reason="no nvcc")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(ptxas.CACHE_VARIABLE, str(tmp_path))
    return tmp_path


def test_what_ptxas_prints_is_read():
    facts = ptxas._parse("sm_90a", OUTPUT)
    assert facts.kernel("main_kernel") == KernelUsage("main_kernel", 240, 1024, 2224, 1800, 1024)
    assert facts.kernel("combine_kernel") == KernelUsage("combine_kernel", 40, 0, 0, 0, 0)
    assert facts.kernel("main_kernel").spills
    assert not facts.kernel("combine_kernel").spills
    assert facts.serialised_wgmma


def test_without_nvcc_there_are_no_facts(monkeypatch, cache):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    assert compile_facts(SOURCE, "sm_90a") is None


@needs_nvcc
def test_a_kernel_is_compiled_once(cache, monkeypatch):
    first = compile_facts(SOURCE, "sm_80")
    assert first is not None
    assert first.kernel("scale").registers > 0
    monkeypatch.setattr(ptxas, "_compile", lambda *_: pytest.fail("compiled again"))
    assert compile_facts(SOURCE, "sm_80") == first


TWO = (
    'extern "C" __global__ void add_kernel(float *x) { x[threadIdx.x] += 2; }\n'
    'extern "C" __global__ void add_kernel_1(float *x) { __shared__ float y[64]; y[threadIdx.x] = x[threadIdx.x]; '
    "__syncthreads(); x[threadIdx.x] = y[63 - threadIdx.x]; }\n"
)


@needs_nvcc
def test_kernels_compiled_together_are_what_each_is_alone_and_are_kept(tmp_path, cache, monkeypatch):
    sources = [TWO, TWO.replace("64", "128"), TWO.replace("+= 2", "= x[0] * x[1] / x[2]")]
    together = compile_together(sources, "sm_80")
    monkeypatch.setenv(ptxas.CACHE_VARIABLE, str(tmp_path / "other"))
    assert together == [compile_facts(source, "sm_80") for source in sources]
    assert [kernel.name for kernel in together[0].kernels] == ["add_kernel", "add_kernel_1"]
    monkeypatch.setenv(ptxas.CACHE_VARIABLE, str(cache))
    monkeypatch.setattr(ptxas, "_compile", lambda *_: pytest.fail("compiled again"))
    assert compile_together(sources, "sm_80") == together
    assert compile_facts(sources[1], "sm_80") == together[1]


@needs_nvcc
def test_a_broken_cache_entry_is_compiled_again(cache):
    first = compile_facts(SOURCE, "sm_80")
    (entry,) = cache.rglob("*.json")
    for broken in ("", "{", json.dumps({"kernels": 3}), json.dumps([])):
        entry.write_text(broken)
        assert compile_facts(SOURCE, "sm_80") == first


@needs_nvcc
def test_an_error_of_nvcc_is_named(cache):
    with pytest.raises(CompileError, match=r"cannot compile for sm_80: .*error"):
        compile_facts("__global__ void f() { nonsense; }", "sm_80")


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    ptxas._write(blocked / "entry.json", PtxasFacts("sm_80", (), (), "nvcc"))
    assert ptxas._read(blocked / "entry.json") is None
