"""What a kernel is timed beside, by name: torch, compile, cublas, copy, and any callable ``module.sub:function``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tilegen.bench.rounds import Call
from tilegen.spec.names import call_problem

KNOWN = {
    "torch": "the formula by plain torch operations",
    "compile": "the same under torch.compile",
    "cublas": "cuBLASLt, with the epilogue where it has it; elsewhere `a @ b` at 8192, as a yardstick of the card",
    "copy": "a device copy that moves as many bytes",
}
YARDSTICK = 8192


class PeerError(ValueError):
    """A name that is no peer; the message says what would be."""


class MissingPeerError(RuntimeError):
    """A peer that this machine or kernel does not have; the message says why."""


@dataclass(frozen=True)
class Peer:
    """``call`` runs it once. ``same_work``: it gives the kernel's own result, so it can be checked. ``flops`` are its own
    where its work is its own.
    """

    call: Call
    same_work: bool = True
    flops: float | None = None


def parse_peers(text: str) -> tuple[str, ...]:
    """The names in a list separated by commas. Raises :class:`PeerError`."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in KNOWN and (":" not in name or call_problem(name)):
            known = ", ".join(KNOWN)
            raise PeerError(f"`{name[:80]}` is no peer: {known}, or a callable as module.sub:function")
    return names


def peer(name: str, bench: ModuleType, inputs: tuple[Any, ...], bytes_moved: float) -> Peer:
    """The peer of that name for one set of inputs on the GPU. Raises :class:`MissingPeerError`."""
    if name == "copy":
        return _copy(bytes_moved, inputs[0].device)
    if name == "cublas":
        return _cublas(bench, inputs)
    if name == "compile":
        return _compiled(bench.PEERS["torch"], inputs)
    call = bench.PEERS["torch"] if name == "torch" else _imported(name)
    return Peer(lambda: call(*inputs))


def _copy(bytes_moved: float, device: Any) -> Peer:
    """Reads and writes half of the bytes each, in 16-byte elements."""
    import torch

    elements = max(1, int(bytes_moved / 2) // 16)
    source = torch.empty(elements, dtype=torch.complex128, device=device)
    target = torch.empty_like(source)
    return Peer(lambda: target.copy_(source), same_work=False)


def _cublas(bench: ModuleType, inputs: tuple[Any, ...]) -> Peer:
    import torch

    call = bench.PEERS.get("cublas")
    if call is not None:
        return Peer(lambda: call(*inputs), same_work="cublas" not in getattr(bench, "ONLY_SPEED", ()))
    a, b = (torch.randn(YARDSTICK, YARDSTICK, device=inputs[0].device, dtype=inputs[0].dtype) for _ in range(2))
    return Peer(lambda: a @ b, same_work=False, flops=2.0 * YARDSTICK**3)


def _compiled(eager: Callable[..., Any], inputs: tuple[Any, ...]) -> Peer:
    """Compiled for this shape alone: what was compiled for others is dropped, or dynamo would fall back to eager."""
    import torch

    torch._dynamo.reset()
    compiled = torch.compile(eager, dynamic=False)
    try:
        compiled(*inputs)
    except Exception as error:  # inductor raises whatever its passes, Triton or gcc raise
        raise MissingPeerError(f"torch.compile: {type(error).__name__}: {str(error).strip()[:200]}") from None
    return Peer(lambda: compiled(*inputs))


def _imported(name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    try:
        call: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise MissingPeerError(f"{name}: {error}") from None
    return call


def yardsticks(names: Collection[str], bench: ModuleType) -> tuple[str, ...]:
    """Those of the peers whose work is not the kernel's, so that they do not count among the fastest of it."""
    only_speed = {"copy"} | set(getattr(bench, "ONLY_SPEED", ()))
    return tuple(n for n in names if n in only_speed or (n == "cublas" and n not in bench.PEERS))
