"""How the work of a build is dealt to worker processes, and what is kept of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tilegen.emit.artefacts import compile_key
from tilegen.emit.rendering import factory_parameters, render
from tilegen.plan.instances import instances
from tilegen.spec import load
from tilegen.verify import pipeline
from tilegen.verify.pipeline import TOGETHER, Job, Reference, _groups, verify

ROOT = Path(__file__).parents[2]
GOLDEN = "import torch\n"
REFERENCE = """\
import torch
def random_inputs(n, dtype, seed):
    return (torch.arange(n, dtype=dtype) + seed,)
def reference(x):
    return (2 * x.double(),)
"""


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    """The kernels of rms_silu for two chips, every other one recorded."""
    spec = load(ROOT / "specs" / "rms_silu.toml")
    source, parameters = render(spec).files["kernel.py"], factory_parameters(spec)
    found = [
        Job(instance, source, compile_key(instance, parameters))
        for target in spec.targets
        for instance in instances(spec, target.arch)
    ]
    return [replace(job, recorded=index % 2 == 0) for index, job in enumerate(found)]


@pytest.mark.parametrize("workers", [1, 2, 64])
def test_each_kernel_is_in_one_group_and_what_nvcc_compiles_together_is_for_one_chip(jobs, workers):
    keyed = [(str(index), job) for index, job in enumerate(jobs)]
    groups = _groups(keyed, workers)
    assert sorted(key for group in groups for key, _ in group) == sorted(key for key, _ in keyed)
    for group in groups:
        assert len({(job.instance.arch, job.source) for _, job in group}) == 1
        assert len(group) == 1 if not group[0][1].recorded else all(job.recorded for _, job in group)
    sizes = [len(group) for group in groups]
    assert max(sizes) == (TOGETHER if workers < 64 else 1)
    # The longest come first.
    recorded = [group[0][1].recorded for group in groups]
    assert recorded == sorted(recorded, reverse=True)


def test_outputs_are_computed_once_for_their_content_and_kernels_of_one_content_share_them(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("TILEGEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(pipeline, "pool", ThreadPoolExecutor)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    cases = [{"name": "five", "dims": {"n": 5}, "dtype": "float32", "seed": 1}]
    references = {name: Reference(REFERENCE, GOLDEN, cases) for name in ("first", "second")}
    _, outputs = verify([], references, 2)
    assert outputs["first"] == outputs["second"]
    assert outputs["first"]["five"].startswith(b"\x93NUMPY")
    monkeypatch.setattr(pipeline, "pool", lambda _: pytest.fail("computed again"))
    assert verify([], references, 2)[1] == outputs
