"""Lets a program that was written for a GPU run where there is none: its CUDA tensors live on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

from tilegen.targets import Target


@contextmanager
def cpu_for_cuda(chip: Target) -> Iterator[None]:
    """Inside, ``device="cuda"``, ``.cuda()`` and ``.to("cuda")`` give CPU tensors, and ``torch.cuda`` describes ``chip``.

    ``torch.cuda.is_available()`` stays as it is. Streams, events and graphs are not there.
    """
    digits = chip.arch.removeprefix("sm_").rstrip("a")
    major, minor = int(digits[:-1]), int(digits[-1])
    properties = SimpleNamespace(
        name=chip.part.name, multi_processor_count=chip.part.sm_count, major=major, minor=minor
    )
    with ExitStack() as changes:
        for name, value in {
            "synchronize": lambda *_: None,
            "empty_cache": lambda: None,
            "current_device": lambda: 0,
            "device_count": lambda: 1,
            "set_device": lambda _device: None,
            "get_device_capability": lambda *_: (major, minor),
            "get_device_properties": lambda *_: properties,
            "device": lambda _device: nullcontext(),
        }.items():
            changes.enter_context(mock.patch.object(torch.cuda, name, value))
        changes.enter_context(_OnCPU())
        yield


class _OnCPU(TorchFunctionMode):
    """Turns every CUDA device among the arguments of a torch function into the CPU."""

    def __torch_function__(
        self, function: Callable[..., Any], _types: Any, arguments: Any = (), named: Any = None
    ) -> Any:
        if getattr(function, "__name__", "") == "cuda" and arguments and isinstance(arguments[0], torch.Tensor):
            return arguments[0]
        moved = [_on_cpu(argument) for argument in arguments]
        return function(
            *moved, **{name: _on_cpu(value) for name, value in (named or {}).items() if name != "pin_memory"}
        )


def _on_cpu(value: Any) -> Any:
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return "cpu"
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return value
