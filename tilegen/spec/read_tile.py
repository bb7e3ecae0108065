"""`[tile]`: integers, expressions and rule lists for the family's tile parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from tilegen.expr import free_names, to_text
from tilegen.spec.document import Path
from tilegen.spec.keys import RULE, SWIZZLE
from tilegen.spec.model import Swizzle, TileRule, TileValue
from tilegen.spec.reader import Reader
from tilegen.spec.section import FamilySection, TileParam

MAX_RULES = 64


def read_tile(
    reader: Reader,
    path: Path,
    value: Any,
    section: FamilySection,
    dims: Collection[str],
    dynamic: Collection[str],
    inherited: Mapping[str, TileValue],
    *,
    complete: bool = True,
) -> dict[str, TileValue]:
    """The tile values of the table at `path`. `inherited` are those of `[tile]`, for a target's overrides.

    Unless it must be `complete`, what the family requires may be missing. A tile is fixed when its kernel is compiled,
    so `use` may not mention `dynamic` dims; `when` may, and dispatches.
    """
    table = reader.table(path, value)
    for key in table:
        if key not in section.tile:
            reader.unknown_key(path, key, section.tile)
    given = {k: v for k, v in table.items() if k in section.tile}
    integers = {k for k, p in section.tile.items() if p.kind == "int"}
    names = {*dims, "sm_count", *(integers & {*given, *inherited})}
    names_at = _Names(
        use=names - {*dynamic, "sm_count"},
        when=names,
        hints={k: f"give `{k}` a value in [tile] first" for k in integers - names}
        | dict.fromkeys({*dynamic, "sm_count"}, _FIXED),
    )
    tile: dict[str, TileValue] = {}
    for key, raw in given.items():
        rules = _read_value(reader, (*path, key), raw, section.tile[key], names_at)
        if rules:
            tile[key] = TileValue(rules=tuple(rules))
    for key, param in section.tile.items():
        if complete and param.required and key not in table and key not in inherited:
            reader.missing_key(path, key, help=param.doc)
    _check_cycles(reader, path, {**inherited, **tile}, tile)
    return tile


def read_schedule(
    reader: Reader, path: Path, value: Any, section: FamilySection, dims: Collection[str]
) -> TileValue | None:
    """The schedule at `path`: a word, or rules of words whose conditions may mention dims and sm_count."""
    if value is None:
        return None
    words = TileParam(f"a schedule of {section.name}", kind="enum", choices=tuple(section.schedules))
    rules = _read_value(reader, path, value, words, _Names(use=(), when={*dims, "sm_count"}, hints={}))
    return TileValue(rules=tuple(rules)) if rules else None


_FIXED = 'a tile is fixed when it is compiled; choose by rules: [ { use = 64, when = "M <= 64" }, { use = 128 } ]'


@dataclass(frozen=True)
class _Names:
    """The names that are known in `use` and in `when`, and help for some that are not."""

    use: Collection[str]
    when: Collection[str]
    hints: Mapping[str, str]


def _read_value(reader: Reader, path: Path, raw: Any, param: TileParam, names: _Names) -> list[TileRule]:
    if not isinstance(raw, list):
        rule = _read_rule(reader, path, path, raw, None, param, names)
        return [rule] if rule else []
    if not raw:
        reader.error("spec-empty-domain", f"the rule list of `{path[-1]}` is empty", path)
    if len(raw) > MAX_RULES:
        reader.error("spec-too-long", f"a rule list has at most {MAX_RULES} rules, and this has {len(raw)}", path)
        return []
    rules: list[TileRule] = []
    last_unconditional: Path | None = None
    for i, element in enumerate(raw):
        here: Path = (*path, i)
        if last_unconditional is not None:
            reader.unreachable(here, last_unconditional)
            break
        entry = reader.table(here, element, RULE, "a rule { use = ..., when = ... }")
        if "use" not in entry:
            continue
        rule = _read_rule(reader, here, (*here, "use"), entry["use"], entry.get("when"), param, names)
        if rule:
            rules.append(rule)
        if "when" not in entry:
            last_unconditional = here
    return rules if len(rules) == len(raw) else []


def _read_rule(
    reader: Reader,
    path: Path,
    use_path: Path,
    raw: Any,
    when: Any,
    param: TileParam,
    names: _Names,
) -> TileRule | None:
    use = _read_use(reader, use_path, raw, param, names)
    condition = None
    if when is not None:
        condition = reader.condition((*path, "when"), when, names.when, names.hints)
        if condition is None:
            return None
    if use is None:
        return None
    return TileRule(
        use=use,
        when=condition,
        use_text=_use_text(use, raw),
        when_text=" ".join((when or "").split()),
        span=reader.document.span(use_path),
    )


def _use_text(use: Any, raw: Any) -> str:
    if isinstance(use, bool):
        return "true" if use else "false"
    if isinstance(use, Swizzle):
        return f"panel {use.panel}, by {use.order}"
    return " ".join(raw.split()) if isinstance(raw, str) else to_text(use)


def _read_use(reader: Reader, path: Path, raw: Any, param: TileParam, names: _Names) -> Any:
    if param.kind == "bool":
        return reader.boolean(path, raw)
    if param.kind == "enum":
        what = f"a choice of `{_parameter(path)}`" if "tile" in path else param.doc
        return reader.word(path, raw, param.choices, what)
    if param.kind == "swizzle":
        return False if raw is False else _read_swizzle(reader, path, raw)
    if isinstance(raw, str) and raw in param.choices:
        return raw
    use = reader.size(path, raw, names.when if param.run_time else names.use, names.hints)
    if isinstance(use, int) and use < 1:
        reader.error("spec-out-of-range", f"`{_parameter(path)}` must be at least 1", path)
        return None
    return use


def _read_swizzle(reader: Reader, path: Path, raw: Any) -> Swizzle | None:
    before = len(reader.diagnostics)
    entry = reader.table(path, raw, SWIZZLE, 'a table { panel = 10, order = "row" }, or false')
    panel = reader.integer((*path, "panel"), entry["panel"]) if "panel" in entry else None
    order = reader.word(
        (*path, "order"), entry.get("order", "row"), ("row", "column"), "an order of tiles", {"col": "column"}
    )
    if panel is None or order is None or len(reader.diagnostics) > before:
        return None
    return Swizzle(panel=panel, order=order)  # type: ignore[arg-type]


def _parameter(path: Path) -> str | int:
    """The tile parameter that a path inside `[tile]` belongs to, or `schedule`."""
    return next((p for i, p in enumerate(path) if i and path[i - 1] == "tile"), "schedule")


def _check_cycles(reader: Reader, path: Path, tile: Mapping[str, TileValue], own: Collection[str]) -> None:
    """Each parameter must be computable from those before it in some order."""
    uses = {key: sorted(_mentions(value) & tile.keys()) for key, value in tile.items()}
    reported: set[str] = set()
    for start in sorted(own):
        cycle = _cycle(start, uses)
        if cycle and not reported & set(cycle):
            reported |= set(cycle)
            reader.error(
                "spec-circular",
                f"`{start}` refers to itself: {' -> '.join(cycle)}",
                (*path, start),
                help="give one of them a number",
            )


def _mentions(value: TileValue) -> set[str]:
    expressions = [part for rule in value.rules for part in (rule.use, rule.when)]
    return {name for e in expressions if not isinstance(e, (Swizzle, type(None))) for name in free_names(e)}


def _cycle(start: str, uses: Mapping[str, list[str]]) -> list[str] | None:
    """A shortest way from `start` back to it."""
    paths = [[start]]
    seen: set[str] = set()
    while paths:
        longer: list[list[str]] = []
        for way in paths:
            for after in uses.get(way[-1], ()):
                if after == start:
                    return [*way, start]
                if after not in seen:
                    seen.add(after)
                    longer.append([*way, after])
        paths = longer
    return None
