"""What the gemm templates print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilegen.expr import formula_to_tilelang, formula_to_torch, free_names, to_python
from tilegen.families.declarations import dtype_text, shape_text
from tilegen.families.gemm.operands import epilogue_scalars, epilogue_tensors, is_transposed
from tilegen.families.module import class_name, start_values
from tilegen.plan.instances import listed_values, static_shapes

if TYPE_CHECKING:
    from tilegen.plan.model import Case
    from tilegen.spec.model import Spec, Swizzle, Tensor

POLICIES = {"square": "Square", "full_row": "FullRow", "full_col": "FullCol"}


def context(spec: Spec, by_arch: Mapping[str, tuple[Case, ...]]) -> dict[str, Any]:
    """Names, shapes and formulas of the kernel; the tile parameters that each factory takes."""
    extra, scalars = epilogue_tensors(spec), epilogue_scalars(spec)
    formula = spec.compute.c  # type: ignore[attr-defined]
    plain = [case for cases in by_arch.values() for case in cases if case.tiles["schedule"] == "plain"]
    swizzles = {case.tiles["swizzle"] or None for case in plain}
    policies = {case.tiles["policy"] for case in plain}
    own = parameters_of(by_arch, policies, swizzles)
    return {
        "title": f"{spec.kernel}: c = {formula.text}, acc = {product_text(spec)}, M dynamic.",
        "public": (spec.kernel, f"{spec.kernel}_kernel_source", f"{spec.kernel}_latency", "use_libraries", "warm_up"),
        "formula_text": formula.text,
        "product_text": product_text(spec),
        "accum": spec.compute.accum,  # type: ignore[attr-defined]
        "extra": extra,
        "scalars": scalars,
        "tensors": {tensor.name: shape_text(tensor) for tensor in spec.tensors},
        "dtypes": spec.dtypes("a"),
        "transpose_a": is_transposed(spec, "a"),
        "transpose_b": is_transposed(spec, "b"),
        **_schedules(spec, own),
        "epilogue": formula_to_tilelang(formula.expr, {name: name for name in epilogue_parameters(spec)}),
        "epilogue_parameters": epilogue_parameters(spec),
        "epilogue_passed": [tensor.name for tensor in extra] + [scalar.name for scalar in scalars],
        "epilogue_casts": [
            tensor.name
            for tensor in extra
            if spec.compute.accum.startswith("float")  # type: ignore[attr-defined]
            and spec.dtypes(tensor.name) != (spec.compute.accum,)  # type: ignore[attr-defined]
        ],
        "identity": formula.text.strip() == "acc",
        "reference": formula_to_torch(formula.expr, {}),
        "inexact": formula_to_torch(formula.expr, {}, error="off"),
        "swizzle": next(iter(swizzles)) if len(swizzles) == 1 else None,
        "swizzles": sorted({s for s in swizzles if s}, key=lambda s: s.word) if len(swizzles) > 1 else [],
        "parameters_of": own,
        "factory_parameters": list(dict.fromkeys(name for names in own.values() for name in names)),
        "dtype_of": {tensor.name: dtype_text(spec, tensor, "a") for tensor in spec.tensors},
        "gemm_call": gemm_call(spec, policies),
        **_api(spec, extra),
    }


GOLDEN_ROWS = 3


def golden_cases(spec: Spec) -> list[dict[str, Any]]:
    """A few rows of the smallest listed shape, in each dtype."""
    n, k = min((shape["N"], shape["K"]) for shape in static_shapes(spec))
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
    scalars = epilogue_scalars(spec)
    rows = "(K, M)" if is_transposed(spec, "a") else "(..., K); leading axes are flattened to M"
    shapes = {"a": rows, "b": shape_text(spec.tensor("b")), "c": "(M, N)" if is_transposed(spec, "a") else "(..., N)"}
    check = {"N": "(N,)", "M": "(M,)", "M N": "(*rows, N)"}
    kinds = {tensor.name: " ".join(to_python(extent) for extent in tensor.shape) for tensor in extra}
    called_with = [*inputs, *(scalar.name for scalar in scalars)]
    return {
        "inputs": inputs,
        "module": None if is_transposed(spec, "a") else class_name(spec.kernel),
        "module_inputs": ["a", *(n for n, kind in kinds.items() if kind != "N"), *(scalar.name for scalar in scalars)],
        "parameters_at_start": start_values(
            spec.compute.c.expr,  # type: ignore[attr-defined]
            [name for name, kind in kinds.items() if kind == "N"],
            "acc",
        ),
        "parameter_dtypes": {
            tensor.name: "dtype" if dtype_text(spec, tensor, "a") == "dtype" else f"torch.{spec.dtypes(tensor.name)[0]}"
            for tensor in extra
        },
        "launched": {"arguments": [*called_with, "out"], "tensors": inputs, "options": ["out"], "others": []},
        "called_with": called_with,
        "dispatch": {
            "first": "a",
            "inputs": inputs,
            "parameters": [*called_with, "*", "out=None"],
            "passed": called_with,
            "passes_out": True,
            "dims": ("M", "N", "K"),
            "tolerance": "tolerance",
            "sizes": _sizes(spec),
        },
        "typed_inputs": [
            *(f"{name}: torch.Tensor" for name in inputs),
            *(f"{scalar.name}: {'float' if scalar.dtype.startswith('float') else 'int'}" for scalar in scalars),
        ],
        "described_scalars": {
            scalar.name: scalar.dtype + (f", {scalar.doc}" if scalar.doc else "") for scalar in scalars
        },
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
            tensor.name: "dtype" if dtype_text(spec, tensor, "a") == "dtype" else f"torch.{spec.dtypes(tensor.name)[0]}"
            for tensor in extra
        },
        "uses_dims": sorted(free_names(spec.compute.c.expr) & {"M", "N", "K"}),  # type: ignore[attr-defined]
        "dim_source": {
            "M": "acc.shape[0]",
            "N": "acc.shape[1]",
            "K": f"a.shape[{0 if is_transposed(spec, 'a') else 1}]",
        },
        "test_shapes": _test_shapes(spec),
        "dtypes_of": {
            name: "(a.dtype,)"
            if dtype_text(spec, spec.tensor(name), "a") == "dtype"
            else f"(torch.{spec.dtypes(name)[0]},)"
            for name in (*inputs, "c")
        },
        "out_dtype": "a.dtype"
        if dtype_text(spec, spec.tensor("c"), "a") == "dtype"
        else f"torch.{spec.dtypes('c')[0]}",
        "fake_shape": "(a.shape[1], b.shape[{}])".format(0 if is_transposed(spec, "b") else 1)
        if is_transposed(spec, "a")
        else "(*a.shape[:-1], b.shape[{}])".format(0 if is_transposed(spec, "b") else 1),
    }


def _sizes(spec: Spec) -> str:
    """The statement that reads M, N and K off the operands."""
    columns = f"b.shape[{0 if is_transposed(spec, 'b') else 1}]"
    if is_transposed(spec, "a"):
        return f"(K, M), N = a.shape, {columns}"
    return f"(M, K), N = a.shape if a.ndim == 2 else _runtime.flattened(a), {columns}"


WORKSPACE = {"stream_k": "(BLOCK_M, BLOCK_N)", "skinny": "(BLOCK_N, BLOCK_M)"}
"""The accumulator of the schedules that add up runs through a workspace, as the generated code writes its shape."""


def parameters_of(
    by_arch: Mapping[str, tuple[Case, ...]], policies: set[str], swizzles: set[Swizzle | None]
) -> dict[str, list[str]]:
    """The tile parameters that the factory of each schedule takes, in the order of the spec; others are printed in it."""
    printed = (
        {"schedule"} | ({"policy"} if len(policies) == 1 else set()) | ({"swizzle"} if len(swizzles) < 2 else set())
    )
    found: dict[str, list[str]] = {}
    for cases in by_arch.values():
        for case in cases:
            names = [name for name in case.tiles if name not in printed]
            found.setdefault(case.tiles["schedule"], names)
    return found


def _schedules(spec: Spec, own: Mapping[str, Any]) -> dict[str, Any]:
    """What differs between the schedules: arguments of the kernel, and how an element's formula is called."""
    extra = epilogue_tensors(spec)
    cells = {
        "plain": ("by * BLOCK_M + i", "bx * BLOCK_N + j"),
        "persistent": ("row + i", "col + j"),
        # Reads are not guarded there; rows and columns beyond the end are not stored, so any value will do.
        "stream_k": ("T.min(row + i, M - 1)", "T.min(col + j, N - 1)"),
        "skinny": ("T.min(row + i, M - 1)", "T.min(col + j, N - 1)"),
    }
    rest = epilogue_parameters(spec)[1 + len(extra) :]
    return {
        "passed_tensors": _passed(spec, own)[0],
        "passed_scalars": _passed(spec, own)[1],
        "passed_shapes": [shape_text(spec.tensor(name)) for name in ("a", "b", *(t.name for t in extra), "c")],
        "takes_blocks": any(schedule != "plain" for schedule in own),
        "takes_workspace": any(schedule in WORKSPACE for schedule in own),
        "workspace_shapes": [(name, shape) for name, shape in WORKSPACE.items() if name in own],
        "factories": [(schedule, f"{spec.kernel}_{schedule}") for schedule in own],
        "arguments_of": {schedule: _arguments(spec, schedule) for schedule in own},
        "epilogue_arguments": {
            schedule: [
                "acc[j, i]" if schedule == "skinny" else "acc[i, j]",
                *element_names(extra, *cell).values(),
                *rest,
            ]
            for schedule, cell in cells.items()
        },
    }


def _passed(spec: Spec, own: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """What the public function passes to a kernel: its tensors, and its scalars."""
    tensors = ["a", "b", *(tensor.name for tensor in epilogue_tensors(spec)), "out"]
    tensors += ["*scratch"] if any(schedule in WORKSPACE for schedule in own) else []
    scalars = [scalar.name for scalar in epilogue_scalars(spec)]
    return tensors, scalars + (["*grid"] if any(schedule != "plain" for schedule in own) else [])


def _arguments(spec: Spec, schedule: str) -> list[tuple[str, str]]:
    """Name and annotation of each argument of a kernel."""
    tensors = [spec.tensor(name) for name in ("a", "b", *(tensor.name for tensor in epilogue_tensors(spec)), "c")]
    found = [(tensor.name, f"T.Tensor({shape_text(tensor)}, {dtype_text(spec, tensor, 'a')})") for tensor in tensors]
    if schedule in WORKSPACE:
        shape = WORKSPACE[schedule].removeprefix("(")
        found.append(("partial", f'T.Tensor((SLOTS, {shape}, "float32")'))
        found.append(("arrived", 'T.Tensor((COUNTERS,), "int32")'))
    found += [(scalar.name, f"T.{scalar.dtype}") for scalar in epilogue_scalars(spec)]
    return found if schedule == "plain" else [*found, ("blocks", "T.int32")]


def epilogue_parameters(spec: Spec) -> list[str]:
    """The names in the formula: acc, tensors, scalars, dims."""
    used = free_names(spec.compute.c.expr)  # type: ignore[attr-defined]
    tensors = [tensor.name for tensor in epilogue_tensors(spec)]
    scalars = [scalar.name for scalar in epilogue_scalars(spec)]
    return ["acc", *tensors, *scalars, *sorted(used & {"M", "N", "K"})]


def gemm_call(spec: Spec, policies: set[str]) -> str:
    arguments = ["a_shared", "b_shared", "acc"]
    if is_transposed(spec, "a"):
        arguments.append("transpose_A=True")
    if is_transposed(spec, "b"):
        arguments.append("transpose_B=True")
    policy = "getattr(T.GemmWarpPolicy, POLICIES[policy])"
    if len(policies) < 2:
        policy = f"T.GemmWarpPolicy.{POLICIES[next(iter(policies), 'square')]}"
    arguments.append(f"policy={policy}")
    return f"T.gemm({', '.join(arguments)})"


def _test_shapes(spec: Spec) -> list[str]:
    """(N, K) pairs in which every listed size stands at least once, the smallest first."""
    columns, depths = (sorted(listed_values(spec.dim(name))) for name in ("N", "K"))
    count = max(len(columns), len(depths))
    return [str((columns[i % len(columns)], depths[i % len(depths)])) for i in range(count)]


def product_text(spec: Spec) -> str:
    """``a @ b``, with the transposes that the tensor shapes say."""
    return f"a{'.T' if is_transposed(spec, 'a') else ''} @ b{'.T' if is_transposed(spec, 'b') else ''}"


def element_names(extra: tuple[Tensor, ...], row: str, column: str) -> dict[str, str]:
    """The element of each epilogue tensor that belongs to an element of the accumulator, given its row and column."""
    index = {"M": row, "N": column}
    return {
        tensor.name: f"{tensor.name}[{', '.join(index[to_python(extent)] for extent in tensor.shape)}]"
        for tensor in extra
    }
