"""Times the generated gemm_relu beside torch, peers interleaved in one run: `python bench/gemm_relu.py [results.json]`."""

import json
import math
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "generated"))

MATRICES = [(14336, 4096), (4096, 14336), (8192, 8192), (7168, 2048)]
SHAPES = [(n, n, n) for n in (1024, 2048, 4096, 8192)]
SHAPES += [(M, N, K) for N, K in MATRICES for M in (1, 16, 64, 256, 1024, 4096, 8192) if not M == N == K]
ROUNDS = 3
DEADLINE = 100


def main():
    import torch
    from gemm_relu import _runtime, kernel
    from gemm_relu.api import _kernels, gemm_relu
    from triton.testing import do_bench

    started = time.time()
    arch, sm_count = _runtime.arch_of(0), _runtime.sm_count_of(0)
    keys = []
    for M, N, K in SHAPES:
        key = dict(arch=arch, dtype="float16", N=N, K=K, **kernel.tiles(arch, M, N, K, sm_count))
        if key not in keys:
            keys.append(key)
    _runtime.warm_up(_kernels, keys, jobs=min(14, os.cpu_count() or 1))
    print(f"{len(keys)} kernels compiled or loaded in {time.time() - started:.0f} s", flush=True)

    rows, bad = [], 0
    for M, N, K in SHAPES:
        if time.time() - started > DEADLINE:
            print("out of time", flush=True)
            break
        a = torch.randn(M, K, device="cuda", dtype=torch.float16)
        b = torch.randn(K, N, device="cuda", dtype=torch.float16)
        zeros = torch.zeros(N, device="cuda", dtype=torch.float16)
        out = torch.full((M, N), torch.nan, device="cuda", dtype=torch.float16)
        gemm_relu(a, b, out=out)
        expected = torch.relu(a.float() @ b.float())
        error = ((out.float() - expected).norm() / expected.norm()).item()
        del expected
        calls = {
            "relu": lambda: torch.relu(a @ b),
            "addmm": lambda: torch._addmm_activation(zeros, a, b, use_gelu=False),
            "ours": lambda: gemm_relu(a, b, out=out),
        }
        times = {name: [] for name in calls}
        for round in range(ROUNDS):
            for name in list(calls)[:: 1 if round % 2 else -1]:
                time.sleep(0.005)
                times[name].append(do_bench(calls[name], warmup=4, rep=10, return_mode="median") * 1e3)
        us = {name: statistics.median(values) for name, values in times.items()}
        ratio = min(us["relu"], us["addmm"]) / us["ours"]
        good = error < 1e-3
        bad += not good
        tile = kernel.tiles(arch, M, N, K, sm_count)
        schedule = f"{tile['schedule']} {tile['BLOCK_M']}x{tile['BLOCK_N']}x{tile['BLOCK_K']} s{tile['stages']}"
        rows.append(dict(M=M, N=N, K=K, schedule=schedule, error=error, ratio=ratio, **us))
        print(
            f"{M:5} {N:6} {K:6}  relu {us['relu']:8.1f}  addmm {us['addmm']:8.1f}  ours {us['ours']:8.1f}  "
            f"ratio {ratio:.3f}  {schedule}  error {error:.1e}{'' if good else ' WRONG'}",
            flush=True,
        )
    # The wrapper alone: host time of a call, many in flight.
    a = torch.randn(16, 2048, device="cuda", dtype=torch.float16)
    b = torch.randn(2048, 7168, device="cuda", dtype=torch.float16)
    out = torch.empty(16, 7168, device="cuda", dtype=torch.float16)
    host = {}
    for name, call in (("ours", lambda: gemm_relu(a, b, out=out)), ("matmul", lambda: torch.mm(a, b, out=out))):
        torch.cuda.synchronize()
        before = time.perf_counter()
        for _ in range(500):
            call()
        host[name] = (time.perf_counter() - before) / 500 * 1e6
        torch.cuda.synchronize()
    print("host microseconds a call:", host)
    mean = math.exp(statistics.fmean(math.log(row["ratio"]) for row in rows))
    above = sum(row["ratio"] >= 1 for row in rows)
    print(
        f"geometric mean {mean:.3f}, {above} of {len(rows)} at or above 1.0, {bad} wrong, {time.time() - started:.0f} s"
    )
    if len(sys.argv) > 1:
        results = {"card": torch.cuda.get_device_name(), "rows": rows, "mean": mean, "host_us": host}
        Path(sys.argv[1]).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
