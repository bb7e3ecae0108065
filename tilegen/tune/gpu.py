"""What measures candidates on the GPU, inside a worker process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilegen.bench.cuda import CudaTimer
from tilegen.bench.rendered import imported
from tilegen.bench.rounds import Call, interleave
from tilegen.tune.worker import FatalError

ROUND_S = 0.004


class Compiler:
    """Compiles candidates for the chip in ``config["arch"]``; TileLang keeps them on disk for the measuring process."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self._package = imported(config["kernel"], Path(config["folder"]))
        self.modules = self._package.__enter__()

    def key(self, tiles: dict[str, Any]) -> dict[str, Any]:
        """The arguments of the kernel's ``build`` for this tiling of the shape in the configuration."""
        rule = self.modules.kernel.tiles
        self.modules.kernel.tiles = lambda *_arguments, **_keywords: self.taken(tiles)
        try:
            found: dict[str, Any] = self.modules.bench.compile_key(
                self.config["arch"], self.config["dtype"], self.config["sm_count"], **self.config["dims"]
            )
        finally:
            self.modules.kernel.tiles = rule
        return found

    def taken(self, tiles: dict[str, Any]) -> dict[str, Any]:
        """The values that the rendered kernel takes as arguments; the others are printed into it."""
        return {name: value for name, value in tiles.items() if name in self.config["taken"]}

    def compile(self, tiles: dict[str, Any]) -> str:
        self.modules.runtime._compile_one(self.modules.kernel.build, self.key(tiles))
        return "compiled"


class GpuBench(Compiler):
    """Checks candidates against the reference and times them interleaved."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        import torch

        bench = self.modules.bench
        self.inputs = bench.inputs(**config["dims"], dtype=getattr(torch, config["dtype"]), seed=config["seed"])
        self.out = bench.output(*self.inputs)
        self.timer = CudaTimer()

    def measure(self, candidates: list[dict[str, Any]], rounds: int) -> list[list[float]]:
        """For each tiling its median seconds in each round, with a cold L2; all are checked first."""
        from statistics import median

        import torch

        try:
            calls = {str(index): self._call(tiles) for index, tiles in enumerate(candidates)}
            samples = interleave(calls, self.timer, cold=True, rounds=rounds, round_s=ROUND_S, seed=self.config["seed"])
        except Exception as error:
            try:
                torch.cuda.synchronize()
            except Exception:
                raise FatalError(f"{type(error).__name__}: {str(error).strip().splitlines()[0][:300]}") from None
            raise
        return [[median(entry) for entry in samples[str(index)]] for index in range(len(candidates))]

    def _call(self, tiles: dict[str, Any]) -> Call:
        """A call of the kernel with this tiling, checked. Its launch is its own, so that tilings can take turns."""
        import torch

        api, kernel, bench = self.modules.api, self.modules.kernel, self.modules.bench
        launcher = api._launch.fresh()

        def call() -> Any:
            api._launch = launcher
            return bench.call(*self.inputs, self.out)

        rule = kernel.tiles
        kernel.tiles = lambda *_arguments, **_keywords: self.taken(tiles)
        try:
            self.out.fill_(torch.nan)
            call()
            torch.cuda.synchronize()
            error = float(bench.error(self.inputs, self.out))
        finally:
            kernel.tiles = rule
        if not error <= 1:
            raise ArithmeticError(f"the result is wrong: {error:.3g} times the tolerance")
        return call
