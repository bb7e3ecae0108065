"""Random specs of every family and schedule, legal or not, as bytes of a file."""

from __future__ import annotations

from hypothesis import strategies as st

from tilegen.check.examples import to_toml

DTYPES = ["float16", "bfloat16", "float32", "int8", "float8_e4m3fn"]
SIZES = st.one_of(st.integers(1, 600), st.sampled_from([8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 272, 320, 512]))
EXPRESSIONS = st.sampled_from(
    ["N // 64", "K // (N - 4096)", "min(128, N)", "65536 // N", "N % 192", "max(16, K % 100)"]
)
TARGETS = st.lists(
    st.sampled_from(["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a", "gfx942"]),
    min_size=1,
    max_size=2,
    unique=True,
)


@st.composite
def dims(draw: st.DrawFn) -> dict[str, object]:
    kind = draw(st.sampled_from(["values", "range", "dynamic", "also"]))
    if kind == "values":
        return {"values": draw(st.lists(st.integers(1, 9000), min_size=1, max_size=3, unique=True))}
    if kind == "also":
        return {"also": draw(st.sampled_from(["N % 64 == 0 and N <= 4096", "N > 7 and N < 99"])), "max": 4096}
    low = draw(st.integers(1, 300))
    found: dict[str, object] = {
        "min": low,
        "max": low + draw(st.integers(0, 100_000)),
        "multiple_of": draw(st.integers(1, 3)),
    }
    return found | ({"dynamic": True} if kind == "dynamic" else {})


def schedule(draw: st.DrawFn, *names: str) -> dict[str, str]:
    """One of the schedules, or none."""
    found = draw(st.sampled_from(["", *names]))
    return {"schedule": found} if found else {}


@st.composite
def gemms(draw: st.DrawFn) -> bytes:
    dtype = draw(st.sampled_from(DTYPES))
    n = draw(dims())
    k = draw(dims())
    k.pop("also", None)
    value = st.one_of(SIZES, EXPRESSIONS)
    tile: dict[str, object] = {name: draw(value) for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K")}
    tile |= {"threads": draw(st.one_of(st.sampled_from([32, 64, 100, 128, 256, 384, 512, 1024]), SIZES))}
    tile |= {"stages": draw(st.integers(1, 9)), "policy": draw(st.sampled_from(["square", "full_row", "full_col"]))}
    for name in draw(st.sets(st.sampled_from(list(tile)))):
        del tile[name]
    return to_toml(
        {
            "kernel": "random",
            "family": "gemm",
            **schedule(draw, "plain", "persistent", "stream_k", "skinny"),
            "dims": {"M": {"dynamic": True, "max": draw(st.integers(1, 2**34))}, "N": n, "K": k or {"values": [64]}},
            "tensors": {
                "a": {"shape": draw(st.sampled_from(["M K", "K M"])), "dtype": dtype},
                "b": {
                    "shape": draw(st.sampled_from(["K N", "N K"])),
                    "dtype": draw(st.sampled_from(["same_as(a)", "float16"])),
                },
                "c": {"shape": "M N", "dtype": draw(st.sampled_from(["float16", "float32", "int32"]))},
            },
            "compute": {"accum": draw(st.sampled_from(["float32", "float16", "int32", "bfloat16"])), "c": "acc"},
            "tile": tile,
            "target": {arch: {} for arch in draw(TARGETS)},
        }
    ).encode()


@st.composite
def norms(draw: st.DrawFn) -> bytes:
    tile: dict[str, object] = {"BLOCK_C": draw(SIZES), "BLOCK_M": draw(SIZES), "threads": draw(SIZES)}
    for name in draw(st.sets(st.sampled_from(list(tile)))):
        del tile[name]
    c = draw(dims())
    c = {key: str(value).replace("N", "C") if key == "also" else value for key, value in c.items()}
    c.pop("dynamic", None)
    return to_toml(
        {
            "kernel": "random",
            "family": "row_norm",
            **schedule(draw, "one_pass", "two_pass"),
            "dims": {"M": {"dynamic": True, "max": 2**20}, "C": c},
            "tensors": {
                "x": {"shape": "M C", "dtype": draw(st.sampled_from(["float16", "float32"]))},
                "y": {"shape": "M C", "dtype": "same_as(x)"},
            },
            "compute": {"norm": "rms", "eps": draw(st.sampled_from([0.0, 1e-5])), "accum": "float32", "y": "x * rstd"},
            "tile": tile,
            "target": {arch: {} for arch in draw(TARGETS)},
        }
    ).encode()


@st.composite
def decodes(draw: st.DrawFn) -> bytes:
    splits = st.sampled_from([1, 2, 7, "auto", "max(1, H // 16)"])
    tile: dict[str, object] = {
        "BLOCK_H": draw(st.one_of(st.sampled_from([16, 64, 128]), SIZES)),
        "BLOCK_N": draw(st.one_of(st.sampled_from([16, 32, 64, 128]), SIZES)),
        "threads": draw(st.one_of(st.sampled_from([128, 256, 512]), SIZES)),
        "stages": draw(st.integers(1, 4)),
        "policy": draw(st.sampled_from(["square", "full_row", "full_col"])),
        "num_split": draw(splits),
    }
    for name in draw(st.sets(st.sampled_from(list(tile)))):
        del tile[name]
    widths = st.sampled_from([[512], [256], [64, 512], [40], [576]])
    return to_toml(
        {
            "kernel": "random",
            "family": "attention",
            "variant": "mla_decode",
            **schedule(draw, "plain", "delayed"),
            "dims": {
                "B": {"dynamic": True, "max": draw(st.integers(1, 100_000))},
                "H": {"values": draw(st.lists(st.integers(1, 256), min_size=1, max_size=3, unique=True))},
                "S": {"dynamic": True, "max": draw(st.integers(1, 2**32))},
                "D_nope": {"values": draw(widths)},
                "D_rope": {"values": [draw(st.sampled_from([16, 24, 64]))]},
            },
            "tensors": {
                "q_nope": {"shape": "B H D_nope", "dtype": draw(st.sampled_from(["float16", "bfloat16"]))},
                "out": {"shape": "B H D_nope", "dtype": draw(st.sampled_from(["same_as(q_nope)", "float32"]))},
            },
            "compute": {"scale": draw(st.sampled_from(["(D_nope + D_rope) ** -0.5", "0.1", "-1.0"]))},
            "tile": tile,
            "target": {arch: {} for arch in draw(TARGETS)},
        }
    ).encode()
