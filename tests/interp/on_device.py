"""What the interpreter's tests run, run on the GPU too: same kernels, same inputs, outputs compared.

``pytest tests/interp --on-device REPORT`` compiles every kernel that a test interpreted without a finding, runs it on the CUDA
device with the same bits, and fails where an output is further from the interpreter's than the order of additions explains.
A kernel that TileLang itself refuses is written down with TileLang's reason. Leave out tests that measure time (``-k``), and
give the command a limit: a kernel that hangs on the device hangs the test.
``python -m tests.interp.on_device REPORT`` prints the worst differences by dtype as a table.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilegen.interp import execution
from tilegen.interp.reference import compare, to_torch
from tilegen.interp.stand_in import parameter_names

#: Largest difference over the largest magnitude, by the dtype of the output. 16-bit: one unit in the last place, where two
#: sums that differ in the last bits round apart. float32: K = 4096 additions, tf32 operands.
BOUND = {
    "float64": 1e-12,
    "float32": 2e-5,
    "float16": 2**-10,
    "bfloat16": 2**-7,
    "float8_e4m3fn": 2**-3,
    "float8_e5m2": 2**-2,
}
#: The tensor cores add fp8 products with fewer bits than float32 has.
FP8_OPERANDS = 2**-8
#: float32 outputs behind a 16-bit rounding, of the probabilities that the second product of attention takes.
ROUNDED_BETWEEN = {"o_partial": 2**-10}


@dataclass(frozen=True)
class Before:
    """An argument as the interpreter is about to see it: its contents, and the strides in elements that it has."""

    name: str
    contents: Any
    strides: tuple[int, ...]
    only_written: bool


class Recorder:
    """Follows ``tilegen.interp.run`` and repeats each right run on the device."""

    def __init__(self, report: Path, test: str) -> None:
        self.report = report
        self.test = test

    def install(self, monkeypatch: Any) -> None:
        compile_program, bind, execute = execution.compile_program, execution.bind, execution.execute
        known: dict[str, Any] = {}

        def compile_and_keep(function: Any) -> Any:
            known["function"] = function
            return compile_program(function)

        def bind_and_keep(program: Any, inputs: Any, frame: Any, seed: int, diagnostics: bool) -> Any:
            bound, dims = bind(program, inputs, frame, seed, diagnostics)
            known["before"] = [before(argument, frame) for argument in bound]
            return bound, dims

        def execute_and_compare(program: Any, inputs: Mapping[str, Any], options: Any) -> Any:
            result = execute(program, inputs, options)
            if not result.findings and options.block is None and not options.watches and options.diagnostics:
                self.compare(known["function"], known["before"], result)
            return result

        monkeypatch.setattr(execution, "compile_program", compile_and_keep)
        monkeypatch.setattr(execution, "bind", bind_and_keep)
        monkeypatch.setattr(execution, "execute", execute_and_compare)

    def compare(self, function: Any, arguments: Sequence[Before], result: execution.Result) -> None:
        if any(stride < 0 for argument in arguments for stride in argument.strides):
            self._note({"refused": "torch has no tensors of negative strides"})
            return
        if any(
            "float4" in argument.contents.dtype.name or "int4" in argument.contents.dtype.name for argument in arguments
        ):
            self._note({"refused": "elements of four bits are packed on the device"})
            return
        try:
            outputs = run_on_device(function, arguments, result.dims)
        except Exception as error:
            self._note({"refused": str(error).strip().splitlines()[-1][:200]})
            return
        operands = sorted({argument.contents.dtype.name for argument in arguments if not argument.only_written})
        wrong = []
        for name, interpreted in result.outputs.items():
            compared = compare(name, interpreted, outputs[name])
            dtype = interpreted.dtype.name
            limit = max(bound(dtype, operands), ROUNDED_BETWEEN.get(name, 0.0))
            difference = compared.relative_error
            self._note({"operands": operands, "dtype": dtype, "output": name, "difference": difference, "bound": limit})
            if not difference <= limit:
                wrong.append(f"{name}{list(compared.index)} is {compared.got}, on the device {compared.expected}")
        assert not wrong, wrong

    def _note(self, line: Mapping[str, Any]) -> None:
        with self.report.open("a") as file:
            file.write(json.dumps({"test": self.test, **line}) + "\n")


def bound(dtype: str, operands: Iterable[str]) -> float:
    """How far an output may be from the device's, over its largest magnitude; integers may not differ."""
    limit = BOUND.get(dtype, 0.0)
    return max(limit, FP8_OPERANDS) if limit and any("float8" in operand for operand in operands) else limit


def before(argument: Any, frame: Any) -> Before:
    """The argument's contents, and the strides (in elements) that the kernel declares, or that the array has."""
    data, plan = argument.storage.data, argument.parameter.plan
    strides = tuple(stride // data.itemsize for stride in data.strides)
    declared = [code.run(frame) for code in plan.strides]
    if declared and None not in declared:
        strides = tuple(int(stride) for stride in declared)
    return Before(argument.parameter.name, data.copy(), strides, not argument.given)


def run_on_device(function: Any, arguments: Iterable[Before], dims: Mapping[str, int]) -> dict[str, Any]:
    """Compile, call with device tensors in the order of the parameters, and give every buffer after the call."""
    import tilelang
    import torch

    tensors = {argument.name: device_tensor(argument) for argument in arguments}
    kernel = tilelang.compile(function)
    names = parameter_names(function)
    given = [name for index, name in enumerate(names) if index not in kernel.out_idx]
    returned = kernel(*(tensors[name] if name in tensors else dims[name] for name in given))
    torch.cuda.synchronize()
    made = [returned] if isinstance(returned, torch.Tensor) else returned or []
    return {**tensors, **dict(zip((names[index] for index in kernel.out_idx), made, strict=True))}


def device_tensor(argument: Before) -> Any:
    """A tensor of the same strides; what is only written holds 0x7B bytes, a number that no test expects."""
    import torch

    contents, shape = argument.contents, argument.contents.shape
    places = np.zeros((), dtype=np.int64)
    for extent, stride in zip(shape, argument.strides, strict=True):
        places = places[..., None] + stride * np.arange(extent)
    flat = np.zeros(int(places.max(initial=0)) + 1, dtype=contents.dtype)
    flat.view(np.uint8)[...] = 0 if flat.dtype == bool else 0x7B
    if not argument.only_written:
        flat[places] = contents
    return torch.as_strided(to_torch(flat).cuda(), shape, argument.strides)


def table(lines: Iterable[Mapping[str, Any]]) -> str:
    """Markdown: by operands and output dtype, how many outputs of how many tests, and the largest difference."""
    lines = list(lines)
    refused = Counter(line["refused"] for line in lines if "refused" in line)
    lines = [line for line in lines if "refused" not in line]
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        groups[", ".join(line["operands"]) or "none", line["dtype"]].append(line)
    rows = [
        "| operands | output | outputs compared | equal | largest difference | bound |",
        "|---|---|---|---|---|---|",
    ]
    for (operands, dtype), group in sorted(groups.items()):
        worst = max(line["difference"] for line in group)
        equal = sum(line["difference"] == 0 for line in group)
        limit = max(line["bound"] for line in group)
        rows.append(f"| {operands} | {dtype} | {len(group)} | {equal} | {worst:.1e} | {limit:.1e} |")
    tests = len({line["test"] for line in lines})
    rows += ["", f"{len(lines)} outputs of {tests} tests; not run on the device:", ""]
    rows += [f"* {count} x {reason}" for reason, count in refused.most_common()]
    return "\n".join(rows)


if __name__ == "__main__":
    print(table(json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()))
