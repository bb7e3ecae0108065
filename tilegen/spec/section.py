"""What a kernel family tells the spec language about itself: its dims, tensors, formulas, tile parameters, schedules.

A section is data. It imports neither sympy, torch nor tilelang, so that every spec and the JSON schema can be read
without them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import sympy


@dataclass(frozen=True)
class Formula:
    """A formula of a spec: `text` as written, `expr` as parsed; its names are symbols of tensors, scalars and dims."""

    text: str
    expr: sympy.Expr = field(compare=False)


@dataclass(frozen=True)
class FormulaNames:
    """What a formula of the `compute` section may mention.

    `inputs` are names that the family computes ("acc") or tensors of the family, with a doc; `extra` admits the spec's
    further tensors and its scalars; `dims` admits dims.
    """

    inputs: Mapping[str, str] = field(default_factory=dict)
    extra: bool = False
    dims: bool = False


@dataclass(frozen=True)
class ComputeKey:
    """One key of `[compute]`: a formula, if it has `names`; a word, if it has `choices`; else a number, at least `least` and
    under `under`. A key without a default must be there.
    """

    doc: str
    names: FormulaNames | None = None
    choices: tuple[str, ...] = ()
    least: float = 0.0
    under: float = 0.0
    default: str | float | None = None

    @property
    def required(self) -> bool:
        return self.default is None


def formula(doc: str, inputs: Mapping[str, str] | None = None, *, extra: bool = False, dims: bool = False) -> Any:
    """The field of a formula; `FormulaNames` says what it may mention."""
    return _key(ComputeKey(doc, names=FormulaNames(inputs or {}, extra, dims)))


def word(doc: str, *choices: str, default: str | None = None) -> Any:
    """The field of a word."""
    return _key(ComputeKey(doc, choices=choices, default=default))


def number(doc: str, *, least: float, under: float, default: float) -> Any:
    """The field of a number."""
    return _key(ComputeKey(doc, least=least, under=under, default=default))


def _key(key: ComputeKey) -> Any:
    return field(default=MISSING if key.required else key.default, metadata={"key": key})


@dataclass(frozen=True, kw_only=True)
class Compute:
    """Base of a family's `[compute]` table, whose fields are made by `formula`, `word` and `number`."""

    @classmethod
    def table(cls) -> Mapping[str, ComputeKey]:
        """The keys of the table, by name."""
        return {each.name: each.metadata["key"] for each in fields(cls)}

    def problems(self) -> Iterator[tuple[str, str, str]]:
        """What is wrong between keys that are right alone: (key, message, help)."""
        return iter(())


@dataclass(frozen=True)
class TileParam:
    """One key of `[tile]`.

    kind "int" takes integers and expressions (and the words in `choices`, such as "auto"), "enum" the words in
    `choices`, "bool" true and false, "swizzle" a table of panel and order, or false.
    """

    doc: str
    kind: Literal["int", "enum", "bool", "swizzle"] = "int"
    choices: tuple[str, ...] = ()
    required: bool = False
    default: str = "derived from the plan and the chip"
    run_time: bool = False
    """The value may be decided at each call: it may then mention dynamic dims and sm_count."""
    schedules: tuple[str, ...] = ()
    """The schedules that take the parameter; all of them if empty. The others ignore it."""
    step: int = 8
    """Values worth offering in place of a refused one are multiples of it."""


@dataclass(frozen=True)
class DimRole:
    """A dim that the family knows by name."""

    doc: str
    required: bool = True


@dataclass(frozen=True)
class TensorRole:
    """A tensor that the family knows by name.

    `shapes` are the layouts it may have. A role with `dtypes` or `same_as` has defaults, and may be left out of the
    spec; it is then present with its first shape, unless it is `optional`.
    """

    doc: str
    shapes: tuple[str, ...]
    dtypes: tuple[str, ...] = ()
    same_as: str | None = None
    optional: bool = False
    output: bool = False


@dataclass(frozen=True)
class FamilySection:
    """The spec section of a family, or of one variant of it.

    `extra_shapes` are the shapes that further tensors, known to the family only through its formulas, may have; none
    are admitted if it is empty. `variants` are sections of their own; `compute` is None where a variant must be named.

    `example` is the body of a whole spec, for `tilegen new`. `examples` are tables to put in place of its own, by what
    they show, for the reference. Together they show each key of the section.
    """

    name: str
    doc: str
    compute: type[Compute] | None = None
    dims: Mapping[str, DimRole] = field(default_factory=dict)
    tensors: Mapping[str, TensorRole] = field(default_factory=dict)
    extra_shapes: tuple[str, ...] = ()
    tile: Mapping[str, TileParam] = field(default_factory=dict)
    schedules: Mapping[str, str] = field(default_factory=dict)
    variants: Mapping[str, FamilySection] = field(default_factory=dict)
    example: str = ""
    examples: Mapping[str, str] = field(default_factory=dict)

    def taken_names(self) -> dict[str, str]:
        """The names that dims, tensors and scalars may not have, and what has them already."""
        taken = dict.fromkeys(self.tile, "a tile parameter")
        for key in self.compute.table().values() if self.compute else ():
            computed = [name for name in (key.names.inputs if key.names else ()) if name not in self.tensors]
            taken |= dict.fromkeys(computed, f"a value that {self.name} computes")
        return taken
