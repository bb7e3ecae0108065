"""Lets a program that was written for a GPU run where there is none: its CUDA tensors live on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from tilelang.carver.arch import driver
from torch.overrides import TorchFunctionMode

from tilegen.targets import Target


@contextmanager
def cpu_for_cuda(chip: Target) -> Iterator[None]:
    """Inside, ``device="cuda"``, ``.cuda()`` and ``.to("cuda")`` give CPU tensors, and ``torch.cuda`` describes ``chip``.

    ``torch.cuda.is_available()`` says what it said before, so that code with a path of its own for the CPU takes it. Streams
    and events are there and order nothing (everything is done in order); the time between events is NaN. There are no graphs.
    """
    digits = chip.arch.removeprefix("sm_").rstrip("a")
    major, minor = int(digits[:-1]), int(digits[-1])
    properties = SimpleNamespace(
        name=chip.part.name, multi_processor_count=chip.part.sm_count, major=major, minor=minor
    )
    with ExitStack() as changes:
        for name, value in {
            "synchronize": lambda *_, **__: None,
            "empty_cache": lambda: None,
            "current_device": lambda: 0,
            "device_count": lambda: 1,
            "set_device": lambda _device: None,
            "get_device_name": lambda *_: chip.part.name,
            "get_device_capability": lambda *_: (major, minor),
            "get_device_properties": lambda *_: properties,
            "device": lambda _device: nullcontext(),
            "Stream": _Stream,
            "stream": lambda _stream: nullcontext(),
            "current_stream": lambda *_: _Stream(),
            "default_stream": lambda *_: _Stream(),
            "Event": _Event,
        }.items():
            changes.enter_context(mock.patch.object(torch.cuda, name, value))
        changes.enter_context(mock.patch.object(torch, "Generator", _Generator))
        fork = torch.random.fork_rng
        changes.enter_context(
            mock.patch.object(torch.random, "fork_rng", lambda devices=None, **named: fork(devices=(), **named))
        )
        changes.enter_context(mock.patch.object(driver, "get_num_sms", return_value=chip.part.sm_count))
        changes.enter_context(_OnCPU())
        yield


class _Stream:
    """A stream on which everything has been done."""

    cuda_stream = 0

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def synchronize(self) -> None: ...

    def wait_stream(self, _stream: Any) -> None: ...

    def wait_event(self, _event: Any) -> None: ...

    def record_event(self, event: Any = None) -> Any:
        return event or _Event()

    def query(self) -> bool:
        return True


class _Event:
    """An event that has happened, at no time."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def record(self, _stream: Any = None) -> None: ...

    def wait(self, _stream: Any = None) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, _later: Any) -> float:
        return float("nan")


class _Generator(torch.Generator):
    """A class, which no ``TorchFunctionMode`` sees the making of."""

    def __new__(cls, device: Any = "cpu") -> _Generator:
        return super().__new__(cls, _on_cpu(device))  # type: ignore[call-arg]


class _OnCPU(TorchFunctionMode):
    """Turns every CUDA device among the arguments of a torch function into the CPU."""

    def __torch_function__(
        self, function: Callable[..., Any], _types: Any, arguments: Any = (), named: Any = None
    ) -> Any:
        name = getattr(function, "__name__", "")
        if name == "cuda" and arguments and isinstance(arguments[0], torch.Tensor):
            return arguments[0]
        if name == "pin_memory":
            return arguments[0]
        place = 0 if function is torch.device else 1 if name == "to" else len(arguments)
        if place < len(arguments) and _is_number(arguments[place]):
            arguments = (*arguments[:place], "cpu", *arguments[place + 1 :])
        others = {key: _on_cpu(value) for key, value in (named or {}).items() if key != "pin_memory"}
        if _is_number(others.get("device")):
            others["device"] = "cpu"
        return function(*(_on_cpu(argument) for argument in arguments), **others)


def _is_number(device: Any) -> bool:
    """Whether a device is given by its number alone: the CUDA device of that number."""
    return isinstance(device, int) and not isinstance(device, bool)


def _on_cpu(value: Any) -> Any:
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return "cpu"
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return value
