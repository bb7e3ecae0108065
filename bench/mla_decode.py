"""Times the generated mla_decode, with cuBLAS `a @ b` at 8192 beside it: `python bench/mla_decode.py [results.json]`.

Random inputs. TFLOPS count the two products of the algorithm; TB/s count the cache read once. The ratio is to the cuBLAS
rate measured next to each row, which makes rows of different cards comparable.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "generated"))

SHAPES = (
    (64, 1024, 128),
    (64, 4096, 128),
    (64, 4090, 128),
    (64, 8192, 128),
    (128, 4096, 128),
    (128, 8192, 128),
    (64, 4096, 16),
    (128, 8192, 16),
    (1, 8192, 128),
)
D_NOPE, D_ROPE = 512, 64


def main():
    import torch
    from mla_decode import mla_decode
    from triton.testing import do_bench

    def median_ms(call):
        return do_bench(call, warmup=8, rep=30, return_mode="median")

    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.float16) for _ in range(2))
    rows = []
    for dtype in (torch.float16, torch.bfloat16):
        for batch, context, heads in SHAPES:
            q = torch.randn(batch, heads, D_NOPE, device="cuda", dtype=dtype)
            q_pe = torch.randn(batch, heads, D_ROPE, device="cuda", dtype=dtype)
            kv = torch.randn(batch, context, D_NOPE + D_ROPE, device="cuda", dtype=dtype)
            out = torch.empty_like(q)
            cublas = 2 * 8192**3 / median_ms(lambda: a @ b) / 1e9
            ms = min(
                median_ms(lambda q=q, q_pe=q_pe, kv=kv, out=out: mla_decode(q, q_pe, kv, out=out)) for _ in range(2)
            )
            tflops = 2 * batch * heads * context * (2 * D_NOPE + D_ROPE) / ms / 1e9
            name = str(dtype).removeprefix("torch.")
            row = {"batch": batch, "context": context, "heads": heads, "dtype": name, "ms": ms, "tflops": tflops}
            rows.append({**row, "TB_per_s": 2 * kv.numel() / ms / 1e9, "cublas_tflops": cublas})
            print(
                f"{batch:4} x {context:5}, {heads:3} heads  {name:8}  {ms:.4f} ms  {tflops:6.1f} TFLOPS  "
                f"{rows[-1]['TB_per_s']:.2f} TB/s  {tflops / cublas:.3f} of cuBLAS"
            )
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps({"card": torch.cuda.get_device_name(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
