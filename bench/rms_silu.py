"""Times the generated rms_silu beside a device copy of the same tensor: `python bench/rms_silu.py [results.json]`.

X is 256 MiB of normal random numbers; the two calls alternate in one run; the ratio is the copy's time over ours.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "generated"))

WIDTHS = (96, 160, 192, 256, 320, 384, 512, 640, 1024, 1056, 2048, 4064, 4096)
ROUNDS = 2


def main():
    import torch
    from rms_silu import rms_silu
    from triton.testing import do_bench

    def median_ms(call):
        return do_bench(call, warmup=8, rep=30, return_mode="median")

    rows = []
    for dtype in (torch.float16, torch.bfloat16):
        for width in WIDTHS:
            x = torch.randn(256 * 2**20 // (2 * width), width, device="cuda", dtype=dtype)
            gamma, y = torch.randn(width, device="cuda", dtype=dtype), torch.empty_like(x)
            copy = ours = float("inf")
            for _ in range(ROUNDS):
                copy = min(copy, median_ms(lambda x=x, y=y: y.copy_(x)))
                ours = min(ours, median_ms(lambda x=x, y=y, gamma=gamma: rms_silu(x, gamma, out=y)))
            name = str(dtype).removeprefix("torch.")
            rows.append(
                {"C": width, "dtype": name, "ratio_to_copy": copy / ours, "TB_per_s": 4 * x.numel() / ours / 1e9}
            )
            print(
                f"C = {width:4}  {name:8}  {rows[-1]['ratio_to_copy']:.3f} of the copy, {rows[-1]['TB_per_s']:.2f} TB/s"
            )
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps({"card": torch.cuda.get_device_name(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
