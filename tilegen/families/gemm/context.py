"""What the gemm templates print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilegen.expr import formula_to_tilelang, formula_to_torch, to_python
from tilegen.families.gemm.plan import epilogue_tensors, is_transposed

if TYPE_CHECKING:
    from tilegen.plan.model import Case
    from tilegen.spec.model import Spec, Tensor

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
        "factory_parameters": ", ".join(factory_parameters(by_arch)),
        "parameters": [(name, shape_text(spec.tensor(name))) for name in ("a", "b", *(t.name for t in extra), "c")],
        "dtype_of": {tensor.name: dtype_text(spec, tensor) for tensor in spec.tensors},
        "gemm_call": gemm_call(spec, policies),
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
        tensor.name: f"{tensor.name}[{', '.join(index[to_python(extent)] for extent in tensor.shape)}]" for tensor in extra
    }
