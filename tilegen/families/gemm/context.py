"""What the gemm templates print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilegen.expr import formula_to_tilelang, formula_to_torch, free_names, to_python
from tilegen.families.gemm.plan import epilogue_tensors, is_transposed
from tilegen.plan.instances import listed_values

if TYPE_CHECKING:
    from tilegen.plan.model import Case
    from tilegen.spec.model import Dim, Spec, Tensor

POLICIES = {"square": "Square", "full_row": "FullRow", "full_col": "FullCol"}


def context(spec: Spec, by_arch: Mapping[str, tuple[Case, ...]]) -> dict[str, Any]:
    """Names, shapes and formulas of the kernel; the tile parameters that each factory takes."""
    extra = epilogue_tensors(spec)
    formula = spec.compute.c  # type: ignore[attr-defined]
    swizzles = {case.tiles["swizzle"] for cases in by_arch.values() for case in cases}
    policies = {case.tiles["policy"] for cases in by_arch.values() for case in cases}
    return {
        "title": f"{spec.kernel}: c = {formula.text}, acc = {product_text(spec)}, M dynamic.",
        "public": (spec.kernel, f"{spec.kernel}_kernel_source", f"{spec.kernel}_latency", "warm_up"),
        "formula_text": formula.text,
        "product_text": product_text(spec),
        "accum": spec.compute.accum,  # type: ignore[attr-defined]
        "extra": extra,
        "scalars": spec.scalars,
        "tensors": {tensor.name: shape_text(tensor) for tensor in spec.tensors},
        "dtypes": spec.dtypes("a"),
        "transpose_a": is_transposed(spec, "a"),
        "transpose_b": is_transposed(spec, "b"),
        "epilogue": formula_to_tilelang(formula.expr, {"acc": "acc[i, j]", **element_names(extra)}),
        "identity": formula.text.strip() == "acc",
        "reference": formula_to_torch(formula.expr, {tensor.name: tensor.name for tensor in extra}),
        "swizzle": next(iter(swizzles)) if len(swizzles) == 1 else None,
        "factory_parameters": factory_parameters(by_arch),
        "parameters": [(name, shape_text(spec.tensor(name))) for name in ("a", "b", *(t.name for t in extra), "c")],
        "dtype_of": {tensor.name: dtype_text(spec, tensor) for tensor in spec.tensors},
        "gemm_call": gemm_call(spec, policies),
        **_api(spec, extra),
    }


GOLDEN_ROWS = 3


def golden_cases(spec: Spec) -> list[dict[str, Any]]:
    """A few rows of the smallest listed shape, in each dtype."""
    n, k = (min(listed_values(spec.dim(name))) for name in ("N", "K"))
    return [
        {
            "name": f"{dtype}-M{GOLDEN_ROWS}-N{n}-K{k}",
            "dims": {"M": GOLDEN_ROWS, "N": n, "K": k},
            "dtype": dtype,
            "seed": 0,
        }
        for dtype in spec.dtypes("a")
    ]


def _api(spec: Spec, extra: tuple[Tensor, ...]) -> dict[str, Any]:
    """What the public functions say and check of each tensor."""
    inputs = ["a", "b", *(tensor.name for tensor in extra)]
    rows = "(K, M)" if is_transposed(spec, "a") else "(..., K); leading axes are flattened to M"
    shapes = {"a": rows, "b": shape_text(spec.tensor("b")), "c": "(M, N)" if is_transposed(spec, "a") else "(..., N)"}
    check = {"N": "(N,)", "M": "(M,)", "M N": "(*rows, N)"}
    kinds = {tensor.name: " ".join(to_python(extent) for extent in tensor.shape) for tensor in extra}
    return {
        "inputs": inputs,
        "typed_inputs": ", ".join(f"{name}: torch.Tensor" for name in inputs),
        "described": {
            name: f"{shapes.get(name) or check[kinds[name]]}, {' or '.join(spec.dtypes(name))}"
            for name in (*inputs, "c")
        },
        "check_shape": {name: check[kind] for name, kind in kinds.items()},
        "empty_rest": ", ".join(["b", *(f"{name}[:0]" if "M" in kind else name for name, kind in kinds.items())]),
        "outside_shapes": "({})".format(
            ", ".join(
                [
                    "(24, 64)" if is_transposed(spec, "a") else "(64, 24)",
                    "(40, 24)" if is_transposed(spec, "b") else "(24, 40)",
                    *({"N": "(40,)", "M": "(64,)", "M N": "(64, 40)"}[kind] for kind in kinds.values()),
                ]
            )
        ),
        "m_indexed": any("M" in kind for kind in kinds.values()),
        "tensor_kind": kinds,
        "squares_text": product_text(spec).replace("a", "a.square()", 1).replace("@ b", "@ b.square()"),
        "k_extent": f"a.shape[{0 if is_transposed(spec, 'a') else 1}]",
        "input_dtype": {
            tensor.name: "dtype" if dtype_text(spec, tensor) == "dtype" else f"torch.{spec.dtypes(tensor.name)[0]}"
            for tensor in extra
        },
        "uses_dims": sorted(free_names(spec.compute.c.expr) & {"M", "N", "K"}),  # type: ignore[attr-defined]
        "dim_source": {
            "M": "acc.shape[0]",
            "N": "acc.shape[1]",
            "K": f"a.shape[{0 if is_transposed(spec, 'a') else 1}]",
        },
        "static_values_of": {dim.name: values_text(dim) for dim in spec.dims if not dim.dynamic},
        "dtypes_of": {
            name: "(a.dtype,)" if dtype_text(spec, spec.tensor(name)) == "dtype" else f"(torch.{spec.dtypes(name)[0]},)"
            for name in (*inputs, "c")
        },
        "out_dtype": "a.dtype" if dtype_text(spec, spec.tensor("c")) == "dtype" else f"torch.{spec.dtypes('c')[0]}",
        "flat": {
            "a": "a" if is_transposed(spec, "a") else "a.view(M, K)",
            "c": "out.view(M, N)",
            **{name: f"{name}.view(M, N)" if kind == "M N" else name for name, kind in kinds.items()},
        },
        "fake_shape": "(a.shape[1], b.shape[{}])".format(0 if is_transposed(spec, "b") else 1)
        if is_transposed(spec, "a")
        else "(*a.shape[:-1], b.shape[{}])".format(0 if is_transposed(spec, "b") else 1),
    }


def factory_parameters(by_arch: Mapping[str, tuple[Case, ...]]) -> list[str]:
    """The tile parameters that a factory takes: those that are numbers, in the order of the spec."""
    first = next(iter(by_arch.values()))[0].tiles
    return [name for name in first if name not in ("schedule", "policy", "swizzle")]


def dtype_text(spec: Spec, tensor: Tensor) -> str:
    """``dtype`` for a tensor that follows a, else the dtype itself."""
    follows = tensor
    while follows.same_as is not None:
        follows = spec.tensor(follows.same_as)
    return "dtype" if follows.name == "a" else f'"{spec.dtypes(tensor.name)[0]}"'


def gemm_call(spec: Spec, policies: set[str]) -> str:
    arguments = ["a_shared", "b_shared", "acc"]
    if is_transposed(spec, "a"):
        arguments.append("transpose_A=True")
    if is_transposed(spec, "b"):
        arguments.append("transpose_B=True")
    policy = f"T.GemmWarpPolicy.{POLICIES[next(iter(policies))]}" if len(policies) == 1 else "POLICIES[policy]"
    arguments.append(f"policy={policy}")
    return f"T.gemm({', '.join(arguments)})"


def values_text(dim: Dim) -> str:
    values = listed_values(dim)
    return f"({values[0]},)" if len(values) == 1 else str(values)


def product_text(spec: Spec) -> str:
    """``a @ b``, with the transposes that the tensor shapes say."""
    return f"a{'.T' if is_transposed(spec, 'a') else ''} @ b{'.T' if is_transposed(spec, 'b') else ''}"


def shape_text(tensor: Tensor) -> str:
    inner = ", ".join(to_python(extent) for extent in tensor.shape)
    return f"({inner},)" if len(tensor.shape) == 1 else f"({inner})"


def element_names(extra: tuple[Tensor, ...]) -> dict[str, str]:
    """The element of each epilogue tensor that belongs to ``acc[i, j]``."""
    index = {"M": "by * BLOCK_M + i", "N": "bx * BLOCK_N + j"}
    return {
        tensor.name: f"{tensor.name}[{', '.join(index[to_python(extent)] for extent in tensor.shape)}]"
        for tensor in extra
    }
