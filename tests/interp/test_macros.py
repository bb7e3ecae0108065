"""Kernels built from macros, as users build them, each against numpy or torch, and each with a mistake."""

import numpy as np
import pytest

from tests.interp import macro_kernels, thread_macro_kernels
from tests.interp.kernel_cases import VALUES, Case, assert_fault_is_seen, assert_lowers, assert_right

torch = pytest.importorskip("torch")


def wide(array):
    return np.asarray(array).astype(np.float64)


def silu(x):
    return x / (1 + np.exp(-x))


def softmax(x):
    weights = np.exp(x - x.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def rms(x):
    return x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-6)


def rotated(x, cos, sin):
    turned = (wide(x[:, :32]) + 1j * wide(x[:, 32:])) * (cos + 1j * wide(sin))
    return np.hstack([turned.real, turned.imag])


def rotation(normal, rng):
    angles = normal(40, 32)
    return {"X": normal(40, 64, dtype="float16"), "cos": np.cos(angles), "sin": np.sin(angles)}


def attention(q, k, v):
    q, k, v = (torch.from_numpy(wide(x)) for x in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v).numpy()


CASES = {
    "row_minimum": Case(
        macro_kernels.row_minimum,
        lambda normal, rng: {"X": np.abs(normal(41, 32)) + 1},
        lambda x: x.min(0),
        VALUES,
    ),
    "gated_product": Case(
        macro_kernels.gated_product,
        lambda normal, rng: {
            "A": normal(100, 96, dtype="float16"),
            "G": normal(96, 80, dtype="float16"),
            "U": normal(96, 80, dtype="float16"),
        },
        lambda a, g, u: silu(wide(a) @ wide(g)) * (wide(a) @ wide(u)),
        VALUES,
    ),
    "passed_epilogue": Case(
        macro_kernels.passed_epilogue,
        lambda normal, rng: {
            "A": normal(64, 64, dtype="float16"),
            "B": normal(64, 128, dtype="float16"),
            "bias": normal(128),
        },
        lambda a, b, bias: torch.nn.functional.leaky_relu(
            torch.from_numpy(wide(a) @ wide(b) + bias).clamp(-3, 3), 0.25
        ).numpy(),
        VALUES,
        tolerance=1e-5,
    ),
    "paired_norms": Case(
        macro_kernels.paired_norms,
        lambda normal, rng: {"Q": normal(32, 64, dtype="float16"), "K": normal(32, 32, dtype="float16")},
        lambda q, k: np.hstack([rms(wide(q)), rms(wide(k))]),
        "uninitialised-read",
    ),
    "attention": Case(
        macro_kernels.attention,
        lambda normal, rng: {name: normal(192, 64, dtype="float16") for name in "QKV"},
        attention,
        VALUES,
    ),
    "arg_maximum": Case(
        macro_kernels.arg_maximum,
        lambda normal, rng: {"X": -np.abs(normal(70, 40))},
        lambda x: x.argmax(1),
        VALUES,
    ),
    "rotary": Case(thread_macro_kernels.rotary, rotation, rotated, VALUES),
    "moments": Case(
        thread_macro_kernels.moments,
        lambda normal, rng: {"X": normal(32, 192) + np.float32(3)},
        lambda x: (wide(x).mean(1), wide(x).var(1)),
        VALUES,
        tolerance=1e-5,
    ),
    "folded_sum": Case(
        thread_macro_kernels.folded_sum,
        lambda normal, rng: {"X": normal(8, 128)},
        lambda x: wide(x).sum(1),
        "shared-race",
        tolerance=1e-5,
    ),
    "centred": Case(
        thread_macro_kernels.centred,
        lambda normal, rng: {"X": normal(8, 128)},
        lambda x: x - wide(x).mean(1, keepdims=True),
        "unwritten-output",
        tolerance=1e-5,
    ),
    "optional_steps": Case(
        thread_macro_kernels.optional_steps,
        lambda normal, rng: {"X": normal(32, 64, dtype="float16"), "scale": normal(64)},
        lambda x, scale: (x, wide(x) * scale, np.maximum(wide(x) * scale, 0)),
        VALUES,
    ),
    "paged_sum": Case(
        thread_macro_kernels.paged_sum,
        lambda normal, rng: {
            "cache": normal(9, 16, 32, dtype="float16"),
            "table": rng.permutation(9)[:8].reshape(2, 4).astype(np.int32),
        },
        lambda cache, table: wide(cache)[table].sum((1, 2)),
        VALUES,
        tolerance=1e-5,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_of_macros_gives_the_numbers_of_its_reference(normal, rng, name):
    assert_right(CASES[name], normal, rng)


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_in_a_macro_or_its_call_is_seen(normal, rng, name):
    assert_fault_is_seen(CASES[name], normal, rng)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_tilelang_lowers_the_kernel_of_macros(name):
    assert_lowers(CASES[name])
