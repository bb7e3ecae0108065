"""What the golden tests of a generated kernel share: inputs that are the same on every machine, comparison within a
derived tolerance, and the facts that lowering must show.

This file is the same beside every kernel. It needs numpy, torch and tilelang, and nothing else; where tilegen is installed too,
its interpreter gives the numbers of the kernel on the CPU.
"""

import hashlib
import importlib
import json
import re
from pathlib import Path

import numpy
import torch

ROUND_OFF = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}
"""Largest relative error of rounding to a dtype once, with a bit of slack for bfloat16 (8 bits of significand)."""

SMALLEST = {torch.float16: 2.0**-24, torch.bfloat16: 2.0**-133, torch.float32: 2.0**-149}
"""Spacing of the subnormal numbers of a dtype: the absolute error of rounding near zero."""

ACCUMULATE = 2.0**-23
"""Relative error of one addition in a float32 tensor-core accumulator, which truncates."""


def normal(shape, dtype, seed, scale=1.0):
    """Normal random numbers, the same on every machine and for every numpy and torch, rounded to ``dtype``."""
    values = numpy.random.RandomState(seed).standard_normal(shape) * scale
    return torch.from_numpy(values).to(dtype)


def normal_on_gpu(shape, dtype, seed, scale=1.0):
    """Normal random numbers drawn on the GPU: much faster, but another GPU may draw others."""
    generator = torch.Generator("cuda").manual_seed(seed)
    return (torch.randn(shape, generator=generator, device="cuda") * scale).to(dtype)


def assert_close(actual, expected, tolerance, what=""):
    """Compares elementwise, where ``actual`` lies: ``|actual - expected| <= tolerance``; NaN never passes."""
    actual = actual.detach().double()
    expected, tolerance = expected.to(actual), torch.as_tensor(tolerance).to(actual)
    error = (actual - expected).abs()
    bad = ~(error <= tolerance)
    if bad.any():
        ratio = torch.where(bad, (error / tolerance).nan_to_num(nan=torch.inf), torch.zeros_like(error))
        worst = numpy.unravel_index(int(ratio.argmax()), tuple(ratio.shape))
        raise AssertionError(
            f"{what}: {int(bad.sum())} of {bad.numel()} elements are off; worst at {tuple(int(i) for i in worst)}: "
            f"got {float(actual[worst])!r}, expected {float(expected[worst])!r}, "
            f"error {float(error[worst]):.3g}, {float(ratio.max()):.3g} times the tolerance"
        )


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def load_facts(folder):
    """The lowering facts that were recorded when the kernel was built."""
    return json.loads((Path(folder) / "golden" / "facts.json").read_text())


def load_output(folder, name):
    """A golden output, float32."""
    return numpy.load(Path(folder) / "golden" / f"{name}.npy")


def require_tilelang(version):
    """Skips where lowering facts cannot be compared: they belong to one version of TileLang."""
    import pytest

    tilelang = pytest.importorskip("tilelang")
    if tilelang.__version__.split("+")[0] != version:
        pytest.skip(f"the facts were recorded with tilelang {version}; this is {tilelang.__version__}")


def require_gpu(arches):
    """Skips, saying so, unless the machine has a GPU that the kernel was proved for; gives its architecture."""
    import pytest

    from ._runtime import arch_of

    if not torch.cuda.is_available():
        pytest.skip("no GPU on this machine")
    arch = arch_of(torch.cuda.current_device())
    if arch not in arches:
        pytest.skip(f"this GPU is {arch}; the kernel is for {', '.join(arches)}")
    return arch


_interpreted = {}
"""The kernels that the interpreter runs, by architecture and compile key."""


def interpret(monkeypatch, api, arch):
    """Until the end of the test, the functions of ``api`` take CPU tensors, and tilegen's interpreter runs the very prim_funcs
    that would be compiled for ``arch``. Skips, saying so, where tilegen is not installed.
    """
    import pytest

    try:
        interp, targets = (importlib.import_module(f"tilegen.{name}") for name in ("interp", "targets"))
    except ImportError as error:
        pytest.skip(f"the numbers on the CPU need tilegen, whose interpreter gives them ({error})")

    _compiled, _launching, _runtime = api._compiled, api._launching, api._runtime

    def get(self, **key):
        name = (arch, *sorted(key.items()))
        if name not in _interpreted:
            _interpreted[name] = _compiled.Jitted(interp.InterpretedKernel(self.build(**key)))
        return _interpreted[name]

    # A launch under capture takes fresh workspaces, and asks for no stream.
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    monkeypatch.setattr(_runtime, "check_tensor", lambda *_arguments, **_options: None)
    monkeypatch.setattr(_runtime, "check_arch", lambda *_arguments: arch)
    monkeypatch.setattr(_runtime, "sm_count_of", lambda _index: targets.target(arch).part.sm_count)
    monkeypatch.setattr(_compiled.KernelCache, "get", get)
    monkeypatch.setattr(_launching.Launcher, "__call__", lambda self, *arguments: self._prepare(*arguments)(*arguments))


INSTRUCTIONS = {
    "wgmma": r"\bwgmma_(?:ss|rs)\b|tl::wgmma_(?:ss|rs)<",
    "mma": r"tl::mma_sync(?:_sp)?<",
    "mfma": r"__builtin_amdgcn_mfma",
    "tma_load": r"tl::tma_load(?:_multicast)?(?:<[^>]*>)?\(",
    "tma_store": r"tl::tma_store(?:<[^>]*>)?\(",
    "cp_async": r"tl::cp_async_gs(?:_conditional)?<",
    "register_reallocation": r"tl::warpgroup_reg_(?:alloc|dealloc)<",
}


def lowering_facts(prim_func, arch):
    """What TileLang makes of ``prim_func`` on ``arch``: instructions used, threads and shared memory of each kernel.

    Needs no GPU. Counts are of call sites in the generated source, so they change when the shape of the program does.
    """
    import tilelang
    from tilelang import tvm

    from ._runtime import tilelang_target

    # tilelang.lower, unlike tilelang.compile, ignores what T.annotate_pass_configs wrote into the prim_func.
    config = dict(prim_func.attrs.get("tilelang_pass_configs", {}))
    with tvm.target.Target(tilelang_target(arch)) as target, tilelang.transform.PassContext(config=config):
        artifact = tilelang.lower(prim_func, target=target)
    source = artifact.kernel_source
    kernels = {}
    for function in artifact.device_mod.functions.values():
        attributes = function.attrs
        extents = dict(attributes["thread_extent"].items()) if "thread_extent" in attributes else {}
        kernels[str(attributes["global_symbol"])] = {
            "threads": int(extents["threadIdx.x"]) if "threadIdx.x" in extents else None,
            "shared_memory": int(attributes["dyn_shared_memory_buf"]) if "dyn_shared_memory_buf" in attributes else 0,
        }
    counts = {name: len(re.findall(pattern, source)) for name, pattern in INSTRUCTIONS.items()}
    return {"kernels": kernels, "instructions": {name: count for name, count in counts.items() if count}}
