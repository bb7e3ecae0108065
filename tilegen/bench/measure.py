"""Measures a kernel beside its peers: compiles, checks every shape against the reference, then times them interleaved."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilegen.bench.cuda import CudaTimer, machine, part_of
from tilegen.bench.peers import MissingPeerError, Peer, peer, yardsticks
from tilegen.bench.rendered import Rendered, rendered
from tilegen.bench.result import Result, Row, Timing
from tilegen.bench.rounds import Timer, interleave, ratio, spread
from tilegen.plan.build import dtype_bindings, plan_of
from tilegen.plan.cases import cases
from tilegen.plan.roofline import Roofline, roofline

if TYPE_CHECKING:
    from tilegen.spec.model import Spec
    from tilegen.targets import Part

Progress = Callable[[str, int, int], None]
"""What is being done, how many of it are done, and how many there are."""


@dataclass(frozen=True)
class Options:
    """``states`` of L2: "cold" and "warm". ``round_s`` are the seconds of one call in one round. ``jobs`` compile. After
    ``limit_s`` seconds of timing no further row is begun.
    """

    against: tuple[str, ...]
    states: tuple[str, ...] = ("cold", "warm")
    rounds: int = 5
    round_s: float = 0.01
    seed: int = 0
    jobs: int = 0
    limit_s: float = float("inf")


def rooflines(spec: Spec, arch: str) -> dict[str, Roofline]:
    """The roofline of each dtype of the first tensor. It is the same for every case, so the first one serves."""
    case = next(cases(spec, arch))
    found: dict[str, Roofline] = {}
    for dtypes in dtype_bindings(spec):
        found.setdefault(next(iter(dtypes.values())), roofline(plan_of(spec, arch, dtypes, case)))
    return found


def roof_row(line: Roofline, dims: Mapping[str, int], part: Part) -> Row:
    """A row without any time: the roof alone."""
    roof = line.at(dims, part)
    return Row(dict(dims), line.dtype, roof.flops, roof.bytes_moved, roof.seconds, roof.bound)


def measure(
    spec: Spec, shapes: Sequence[Mapping[str, int]], dtypes: Sequence[str], options: Options, progress: Progress
) -> Result:
    """Times ``spec`` on the current GPU. A shape that is wrong, or fails, is not timed; its row says so."""
    import torch

    with rendered(spec) as modules:
        device = torch.cuda.current_device()
        arch, sm_count = modules.runtime.arch_of(device), modules.runtime.sm_count_of(device)
        facts = machine(arch, sm_count)
        part, lines = part_of(arch, facts["card"]), rooflines(spec, arch)
        points = [(dtype, dims) for dtype in dtypes for dims in shapes]
        keys = [modules.bench.compile_key(arch, dtype, sm_count, **dims) for dtype, dims in points]
        _compile(modules, keys, options.jobs or (os.cpu_count() or 1), progress)
        timer, rows, started = CudaTimer(), [], time.monotonic()
        for index, ((dtype, dims), key) in enumerate(zip(points, keys, strict=True)):
            if time.monotonic() - started > options.limit_s:
                break
            progress("timing " + " ".join(f"{name}={size}" for name, size in dims.items()), index, len(points))
            rows.append(_row(modules, roof_row(lines[dtype], dims, part), key, timer, options))
            torch.cuda.empty_cache()
        names = yardsticks(options.against, modules.bench)
    return Result(spec.kernel, spec.path, spec.sha256, facts, tuple(rows), options.against, names, len(points))


def _compile(modules: Rendered, keys: Sequence[Mapping[str, Any]], jobs: int, progress: Progress) -> None:
    """Every kernel once, in parallel processes: TileLang keeps what they compiled on disk."""
    unique = [dict(key) for key in {tuple(key.items()): key for key in keys}.values()]
    progress(f"compiling {len(unique)} kernels", 0, len(keys))
    modules.runtime.warm_up(modules.api._kernels, unique, min(jobs, len(unique)))


def _row(modules: Rendered, roof: Row, key: Mapping[str, Any], timer: Timer, options: Options) -> Row:
    import torch

    bench = modules.bench
    tiles = {name: value for name, value in key.items() if name not in ("arch", "dtype", *roof.dims)}
    base = {**vars(roof), "tiles": tiles}
    try:
        inputs = bench.inputs(**roof.dims, dtype=getattr(torch, roof.dtype), seed=options.seed)
        out = bench.output(*inputs)
        out.fill_(torch.nan)
        bench.call(*inputs, out)
        base["error"] = float(bench.error(inputs, out))
    except Exception as error:  # a launch that fails raises whatever torch, TileLang or the driver raise
        return Row(**{**base, "failed": f"{type(error).__name__}: {str(error).strip()[:300]}"})
    if not base["error"] <= 1:
        return Row(**base)
    peers, missing = _peers(modules, inputs, roof, options.against)
    calls = {"ours": lambda: bench.call(*inputs, out), **{name: entry.call for name, entry in peers.items()}}
    base["times"] = {state: _times(calls, peers, roof, timer, state == "cold", options) for state in options.states}
    base["missing"] = missing
    return Row(**base)


def _peers(
    modules: Rendered, inputs: tuple[Any, ...], roof: Row, names: Sequence[str]
) -> tuple[dict[str, Peer], dict[str, str]]:
    """The peers that run here, and why the others do not."""
    found: dict[str, Peer] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            entry = peer(name, modules.bench, inputs, roof.bytes_moved)
            entry.call()
            found[name] = entry
        except MissingPeerError as error:
            missing[name] = str(error)
        except Exception as error:  # a peer's own failure is no failure of the kernel
            missing[name] = f"{name}: {type(error).__name__}: {str(error).strip()[:200]}"
    return found, missing


def _times(
    calls: Mapping[str, Callable[[], object]],
    peers: Mapping[str, Peer],
    roof: Row,
    timer: Timer,
    cold: bool,
    options: Options,
) -> dict[str, Timing]:
    """A peer with work of its own is compared by rate."""
    samples = interleave(calls, timer, cold=cold, rounds=options.rounds, round_s=options.round_s, seed=options.seed)
    times = {"ours": Timing(spread(samples["ours"]))}
    for name, entry in peers.items():
        found = ratio(samples[name], samples["ours"])
        if entry.flops is not None:
            factor = roof.flops / entry.flops
            found = type(found)(found.median * factor, found.low * factor, found.high * factor)
        times[name] = Timing(spread(samples[name]), found)
    return times
