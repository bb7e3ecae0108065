"""What the row_norm templates print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilegen.emit.format import values_text
from tilegen.expr import formula_to_tilelang, formula_to_torch, repeated_terms, to_python
from tilegen.families.declarations import dtype_text, shape_text
from tilegen.families.module import class_name, start_values
from tilegen.families.row_norm.plan import STATISTICS, column_tensors, has_row_layout, inputs, vector
from tilegen.plan.build import dtype_bindings
from tilegen.plan.instances import listed_values

if TYPE_CHECKING:
    from tilegen.plan.model import Case
    from tilegen.spec.model import Spec, Tensor

PARAMETERS = {
    "one_pass": ("BLOCK_C", "BLOCK_M", "threads", "preload", "blocks_per_sm"),
    "two_pass": ("BLOCK_C", "threads", "blocks_per_sm"),
}
"""The tile values that the factory of each schedule takes."""

TAKEN = {"i", "j", "row", "step", "column"}
"""Names of the templates."""


def context(spec: Spec, by_arch: Mapping[str, tuple[Case, ...]]) -> dict[str, Any]:
    """Names, shapes and formulas of the kernel and of its reference."""
    compute: Any = spec.compute
    dtypes = dtype_bindings(spec)[0]
    read = inputs(spec)
    cases = [case for cases in by_arch.values() for case in cases]
    statistics = [name for _, name in STATISTICS[compute.norm]]
    bindings, formula = repeated_terms(
        compute.y.expr, prefix="z", taken={tensor.name for tensor in spec.tensors} | TAKEN | set(statistics)
    )
    names = element_names(spec, read, statistics)
    return {
        "title": f"{spec.kernel}: y = {compute.y.text}, {compute.norm} statistics of each row of x (M, C), M dynamic.",
        "public": public(spec),
        "norm": compute.norm,
        "eps": compute.eps,
        "accum": compute.accum,
        "vector": vector(dtypes),
        "parameters_of": PARAMETERS,
        "factory_parameters": list(
            dict.fromkeys(name for case in cases for name in PARAMETERS[case.tiles["schedule"]])
        ),
        "own_layout": all(has_row_layout(case.tiles, dtypes) for case in cases),
        "dtypes": spec.dtypes("x"),
        "parameters": [(tensor.name, shape_text(tensor)) for tensor in (*read, spec.tensor("y"))],
        "dtype_of": {tensor.name: dtype_text(spec, tensor, "x") for tensor in spec.tensors},
        "columns": [(tensor.name, dtype_text(spec, tensor, "x")) for tensor in column_tensors(spec)],
        "statistics": statistics,
        "statistics_lines": statistics_lines(compute.norm, compute.eps, compute.accum),
        "formula_text": f"y = {compute.y.text}",
        "bindings": [(name, formula_to_tilelang(expr, names)) for name, expr in bindings],
        "formula": formula_to_tilelang(formula, names),
        "reference": formula_to_torch(compute.y.expr, {}),
        "inexact": formula_to_torch(compute.y.expr, {}, error="off", fast=True),
        **_two_pass(spec, read, statistics, bindings, formula),
        **_api(spec, read),
    }


def _two_pass(
    spec: Spec, read: tuple[Tensor, ...], statistics: list[str], bindings: Any, formula: Any
) -> dict[str, Any]:
    """What the two-pass template prints: the passes of the statistics, and the formula at a column of a chunk."""
    compute: Any = spec.compute
    names = element_names(spec, read, statistics)
    index = {"M": "row + i", "C": "column + j"}
    elements = {"x": f'T.cast(x_chunk[i, j], "{compute.accum}")'}
    for tensor in read[1:]:
        element = ", ".join(index[to_python(extent)] for extent in tensor.shape)
        elements[tensor.name] = f'T.cast({tensor.name}[{element}], "{compute.accum}")'
    names |= {name: f"{name}_here" for name in elements}
    return {
        "two_pass_elements": [(names[name], text) for name, text in elements.items()],
        "two_pass_lines": two_pass_lines(compute.norm, compute.eps, compute.accum),
        "two_pass_column": column_of(len(statistics)),
        "two_pass_bindings": [(name, formula_to_tilelang(expr, names)) for name, expr in bindings],
        "two_pass_formula": formula_to_tilelang(formula, names),
    }


def column_of(number: int) -> str:
    """The first column of a step of the pass of that number: every other one goes backwards, to what was read last."""
    return "(chunks - 1 - step) * BLOCK_C" if number % 2 else "step * BLOCK_C"


def two_pass_lines(norm: str, eps: float, accum: str) -> list[str]:
    """The source that computes the row statistics in one pass over the chunks each."""
    x, inside = f'T.cast(x_chunk[i, j], "{accum}")', "column + j < C"
    of_row = "for i in T.Parallel(1):"

    def reduced(number: int, into: str, term: str, kind: str = "sum") -> list[str]:
        start = "T.clear(term)" if kind == "sum" else f'T.fill(term, -T.infinity("{accum}"))'
        return [
            start,
            "for step in T.serial(chunks):",
            f"    column = {column_of(number)}",
            "    T.copy(x[row, column], x_chunk)",
            "    for i, j in T.Parallel(1, BLOCK_C):",
            f"        term[i, j] {term}",
            f"T.reduce_{kind}(term, {into}, dim=1)",
        ]

    mean = f"rstd[i] = T.rsqrt(rstd[i] * (1.0 / C) + {eps!r})"
    if norm == "rms":
        return [*reduced(0, "rstd", f"+= {x} * {x}"), of_row, f"    {mean}"]
    if norm == "l2":
        return [*reduced(0, "rstd", f"+= {x} * {x}"), of_row, f"    rstd[i] = T.rsqrt(rstd[i] + {eps!r})"]
    if norm == "layer":
        centred = f"({x} - mean[i])"
        return [
            *reduced(0, "mean", f"+= {x}"),
            of_row,
            "    mean[i] = mean[i] * (1.0 / C)",
            "# The variance about the mean, not E[x^2] - mean^2, which cancels. Columns past C do not count.",
            *reduced(1, "rstd", f"+= T.if_then_else({inside}, {centred} * {centred}, 0.0)"),
            of_row,
            f"    {mean}",
        ]
    return [
        "# Columns past C must not win the maximum, nor add to the sum.",
        *reduced(0, "row_max", f'= T.max(term[i, j], T.if_then_else({inside}, {x}, -T.infinity("{accum}")))', "max"),
        *reduced(1, "row_sum", f"+= T.if_then_else({inside}, T.exp({x} - row_max[i]), 0.0)"),
    ]


def public(spec: Spec) -> tuple[str, ...]:
    return (spec.kernel, f"{spec.kernel}_kernel_source", f"{spec.kernel}_latency", "use_libraries", "warm_up")


def element_names(spec: Spec, read: tuple[Tensor, ...], statistics: list[str]) -> dict[str, str]:
    """The element of each input, in the accumulator's dtype, that belongs to row i and column j of the tile."""
    accum = spec.compute.accum  # type: ignore[attr-defined]
    index = {"M": "block * BLOCK_M + i", "C": "j"}
    names = {
        tensor.name: f'T.cast({tensor.name}[{", ".join(index[to_python(extent)] for extent in tensor.shape)}], "{accum}")'
        for tensor in read
    }
    for tensor in column_tensors(spec):
        at_hand = f"{tensor.name}_row[j] if preload else {tensor.name}[j]"
        names[tensor.name] = f'T.cast({at_hand}, "{accum}")'
    names["x"] = f'T.cast(x_row[i, j], "{accum}")'
    return {**names, **{statistic: f"{statistic}[i]" for statistic in statistics}}


def statistics_lines(norm: str, eps: float, accum: str) -> list[str]:
    """The source that turns ``x_row`` into the row statistics of a norm."""
    x = f'T.cast(x_row[i, j], "{accum}")'
    over_tile, over_rows = "for i, j in T.Parallel(BLOCK_M, width):", "for i in T.Parallel(BLOCK_M):"
    mean_square = [
        over_tile,
        f"    term[i, j] = {x} * {x}",
        "T.reduce_sum(term, rstd, dim=1)",
        over_rows,
    ]
    if norm == "rms":
        return [*mean_square, f"    rstd[i] = T.rsqrt(rstd[i] * (1.0 / C) + {eps!r})"]
    if norm == "l2":
        return [*mean_square, f"    rstd[i] = T.rsqrt(rstd[i] + {eps!r})"]
    if norm == "layer":
        return [
            over_tile,
            f"    term[i, j] = {x}",
            "T.reduce_sum(term, mean, dim=1)",
            over_rows,
            "    mean[i] = mean[i] * (1.0 / C)",
            "# The variance about the mean, not E[x^2] - mean^2, which cancels. Columns past C do not count.",
            over_tile,
            f"    centred = {x} - mean[i]",
            "    term[i, j] = T.if_then_else(j < C, centred * centred, 0.0)",
            "T.reduce_sum(term, rstd, dim=1)",
            over_rows,
            f"    rstd[i] = T.rsqrt(rstd[i] * (1.0 / C) + {eps!r})",
        ]
    return [
        "# Columns past C must not win the maximum.",
        over_tile,
        f'    term[i, j] = T.if_then_else(j < C, {x}, -T.infinity("{accum}"))',
        "T.reduce_max(term, row_max, dim=1)",
        over_tile,
        "    term[i, j] = T.exp(term[i, j] - row_max[i])",
        "T.reduce_sum(term, row_sum, dim=1)",
    ]


GOLDEN_ROWS = 5
GOLDEN_ELEMENTS = 16_384
"""A golden output is kept below this, but for one row: it is vendored."""


def golden_cases(spec: Spec) -> list[dict[str, Any]]:
    """A few rows of the narrowest and the widest listed width, in each dtype."""
    widths = listed_values(spec.dim("C"))
    rows = {width: max(1, min(GOLDEN_ROWS, GOLDEN_ELEMENTS // width)) for width in sorted({min(widths), max(widths)})}
    return [
        {"name": f"{dtype}-M{count}-C{width}", "dims": {"M": count, "C": width}, "dtype": dtype, "seed": 0}
        for dtype in spec.dtypes("x")
        for width, count in rows.items()
    ]


def _widths(spec: Spec) -> str:
    widths = listed_values(spec.dim("C"))
    return values_text(widths)


def _api(spec: Spec, read: tuple[Tensor, ...]) -> dict[str, Any]:
    """What the public functions say and check of each tensor."""
    kinds = {tensor.name: " ".join(to_python(extent) for extent in tensor.shape) for tensor in read}
    check = {"C": "(C,)", "M": "(M,)", "M C": "x.shape"}
    said = {"C": "(C,)", "M": "(M,)", "M C": "(..., C), as x"}
    words = {name: f"{said[kind]}, {' or '.join(spec.dtypes(name))}" for name, kind in kinds.items()}
    words["x"] = f"(..., C), {' or '.join(spec.dtypes('x'))}; leading axes are flattened to M"

    def checked(name: str) -> str:
        follows = dtype_text(spec, spec.tensor(name), "x") == "dtype"
        return "(x.dtype,)" if follows else f"(torch.{spec.dtypes(name)[0]},)"

    names = list(kinds)
    accum = spec.compute.accum  # type: ignore[attr-defined]
    out = spec.tensor("y")
    return {
        "inputs": names,
        "module": class_name(spec.kernel),
        "module_inputs": [name for name, kind in kinds.items() if kind != "C"],
        "parameters_at_start": start_values(
            spec.compute.y.expr,  # type: ignore[attr-defined]
            [name for name, kind in kinds.items() if kind == "C"],
            "x",
        ),
        "launched": {"arguments": [*names, "out"], "tensors": names, "options": ["out"], "others": []},
        "typed_inputs": ", ".join(f"{name}: torch.Tensor" for name in names),
        "described": {**words, "y": f"(..., C), {' or '.join(spec.dtypes('y'))}"},
        "check_shape": {name: check[kind] for name, kind in kinds.items()},
        "tensor_kind": kinds,
        "dtypes_of": {name: checked(name) for name in (*names, "y")},
        "out_dtype": "x.dtype" if dtype_text(spec, out, "x") == "dtype" else f"torch.{spec.dtypes('y')[0]}",
        "kernel_shape": {
            name: f"({kind.replace(' ', ', ')}{',' if ' ' not in kind else ''})" for name, kind in kinds.items()
        },
        "flat": {name: f"{name}.view(M, C)" if kind == "M C" else name for name, kind in kinds.items()},
        "input_dtype": {
            name: "dtype" if dtype_text(spec, spec.tensor(name), "x") == "dtype" else f"torch.{spec.dtypes(name)[0]}"
            for name in names
        },
        "widths_text": _widths(spec),
        "matrix_inputs": [name for name, kind in kinds.items() if kind == "M C" and name != "x"],
        "outside_arguments": ", ".join(
            f"x.new_zeros({ {'M C': '(64, 24)', 'C': '24', 'M': '64'}[kind] })" for kind in kinds.values()
        ),
        "dispatch": {
            "first": "x",
            "inputs": names,
            "parameters": [*names, "*", "out=None"],
            "passed": names,
            "passes_out": True,
            "dims": ("M", "C"),
            "tolerance": "rounded(expected, tolerance, out.dtype)",
            "sizes": "M, C = x.shape if x.ndim == 2 else _runtime.flattened(x)",
        },
        "eager_accum": "float64" if accum == "float64" else "float32",
        "eager_cast": "double" if accum == "float64" else "float",
        "column_inputs": [name for name, kind in kinds.items() if kind == "C"],
        "row_inputs": [name for name, kind in kinds.items() if kind == "M"],
        "uses_m": "M" in {symbol.name for symbol in spec.compute.y.expr.free_symbols},  # type: ignore[attr-defined]
        "uses_c": "C" in {symbol.name for symbol in spec.compute.y.expr.free_symbols},  # type: ignore[attr-defined]
    }
