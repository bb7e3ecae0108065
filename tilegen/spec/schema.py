"""The JSON schema of spec files, for completion and hover in editors.

It is made from the tables that the loader reads by, so it cannot fall behind them. It says less than the loader: what
expressions mean and how keys depend on each other is beyond a schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilegen import families, targets
from tilegen.spec import keys
from tilegen.spec.keys import Key
from tilegen.spec.section import ComputeKey, FamilySection, TileParam

_IDENTIFIER = "^[A-Za-z][A-Za-z0-9_]*$"


def schema() -> dict[str, Any]:
    """The schema (draft 7) of a spec file: one alternative for each family and variant."""
    definitions: dict[str, Any] = {"dim": _table(keys.DIM), "scalar": _table(keys.SCALAR)}
    alternatives = [
        _spec(name, variant, section, definitions)
        for name in families.names()
        for variant, section in _sections(families.section(name))
    ]
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "tilegen kernel spec",
        "type": "object",
        "oneOf": alternatives,
        "definitions": definitions,
    }


def _sections(section: FamilySection) -> list[tuple[str | None, FamilySection]]:
    """The variants of a family by name, and the family itself as None where it stands without one."""
    own: list[tuple[str | None, FamilySection]] = [(None, section)] if section.compute else []
    return own + list(section.variants.items())


def _spec(family: str, variant: str | None, section: FamilySection, definitions: dict[str, Any]) -> dict[str, Any]:
    properties = _properties(keys.SPEC)
    required = _required(keys.SPEC)
    properties["family"] |= {"enum": [family]}
    if variant is None:
        del properties["variant"]
    else:
        properties["variant"] |= {"enum": [variant]}
        required.append("variant")
    if any(not (role.dtypes or role.same_as or role.optional) for role in section.tensors.values()):
        required.append("tensors")
    name = variant or family
    definitions[f"{name}.tile"] = _closed({key: _tile_param(param) for key, param in section.tile.items()})
    doc = _choices(keys.SPEC["schedule"].doc, section.schedules)
    schedule = _or_rules({"enum": list(section.schedules)}) | {"description": doc}
    target = _table(keys.TARGET)
    target["properties"]["tile"] = _described(f"{name}.tile", keys.TARGET["tile"].doc)
    target["properties"]["schedule"] |= schedule
    definitions[f"{name}.target"] = target
    properties["schedule"] |= schedule
    properties["dims"] |= _dims(section)
    properties["tensors"] |= _tensors(section)
    properties["scalars"] |= {"patternProperties": {_IDENTIFIER: _ref("scalar")}, "additionalProperties": False}
    properties["compute"] |= _compute(section)
    properties["tile"] = _described(f"{name}.tile", keys.SPEC["tile"].doc)
    properties["target"] |= _closed(dict.fromkeys(targets.names(), _ref(f"{name}.target")))
    properties["dispatch"] |= _table(keys.DISPATCH)
    properties["dispatch"]["properties"]["prefer"]["items"] = _table(keys.PREFER)
    reason = {"type": "string", "minLength": 1, "description": "why the findings are accepted"}
    properties["allow"] |= {"patternProperties": {"^TG-[A-Z][0-9]{1,3}$": reason}, "additionalProperties": False}
    properties["tests"] |= _table(keys.TESTS)
    properties["tests"]["properties"]["cases"]["items"] = {
        "type": "object",
        "properties": {"dtype": {"enum": list(keys.DTYPES), "description": "dtype of the case"}},
        "additionalProperties": {"type": "integer", "minimum": 1},
        "required": properties["dims"]["required"],
    }
    properties["tolerance"] |= _table(keys.TOLERANCE) | {"anyOf": [{"required": ["atol"]}, {"required": ["rtol"]}]}
    return {
        "title": name,
        "description": section.doc,
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _ref(definition: str) -> dict[str, Any]:
    return {"$ref": f"#/definitions/{definition}"}


def _described(definition: str, doc: str) -> dict[str, Any]:
    # Draft 7 ignores what stands beside a $ref.
    return {"allOf": [_ref(definition)], "description": doc}


def _table(table: Mapping[str, Key]) -> dict[str, Any]:
    return _closed(_properties(table), _required(table))


def _properties(table: Mapping[str, Key]) -> dict[str, Any]:
    return {name: {**key.schema, "description": key.doc} for name, key in table.items()}


def _required(table: Mapping[str, Key]) -> list[str]:
    return [name for name, key in table.items() if key.required]


def _closed(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    closed: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**closed, "required": required} if required else closed


def _dims(section: FamilySection) -> dict[str, Any]:
    return {
        "properties": {name: _described("dim", role.doc) for name, role in section.dims.items()},
        "required": [name for name, role in section.dims.items() if role.required],
        "patternProperties": {_IDENTIFIER: _ref("dim")},
        "additionalProperties": False,
    }


def _tensors(section: FamilySection) -> dict[str, Any]:
    roles = section.tensors.items()
    tensors: dict[str, Any] = {
        "properties": {name: _tensor(role.doc, role.shapes) for name, role in roles},
        "required": [name for name, role in roles if not (role.dtypes or role.same_as or role.optional)],
        "additionalProperties": False,
    }
    if section.extra_shapes:
        known = "|".join(section.tensors)
        extra = _tensor("a further tensor, for the formulas", section.extra_shapes)
        tensors["patternProperties"] = {f"^(?!({known})$)[A-Za-z][A-Za-z0-9_]*$": extra}
    return tensors


def _tensor(doc: str, shapes: tuple[str, ...]) -> dict[str, Any]:
    table = _table(keys.TENSOR)
    # Brackets and blanks are free, so the layouts are shown but not enforced.
    table["properties"]["shape"]["description"] = f"one of {', '.join(shapes)}"
    table["properties"]["shape"]["examples"] = list(shapes)
    return {**table, "description": doc}


def _compute(section: FamilySection) -> dict[str, Any]:
    assert section.compute is not None
    table = section.compute.table().items()
    properties = {name: _compute_key(key) | {"description": key.doc} for name, key in table}
    required = [name for name, key in table if key.required]
    return {"properties": properties, "required": required, "additionalProperties": False}


def _compute_key(key: ComputeKey) -> dict[str, Any]:
    """The schema of a key of `[compute]`, without its description."""
    if key.names is not None:
        return {"type": ["string", "number"]}
    default = {} if key.required else {"default": key.default}
    if key.choices:
        return (
            default
            | {"type": "string"}
            | ({"enum": [*key.choices]} if len(key.choices) > 1 else {"const": key.choices[0]})
        )
    return default | {"type": "number", "minimum": key.least, "exclusiveMaximum": key.under}


def _tile_param(param: TileParam) -> dict[str, Any]:
    default = f" (default: {param.default})" if not param.required else ""
    return _or_rules(_tile_use(param)) | {"description": _choices(param.doc, param.choices) + default}


def _or_rules(use: dict[str, Any]) -> dict[str, Any]:
    """A value, or first-match rules for it."""
    rule = _table(keys.RULE)
    rule["properties"]["use"] |= use
    return {"anyOf": [use, {"type": "array", "items": rule, "minItems": 1}]}


def _tile_use(param: TileParam) -> dict[str, Any]:
    if param.kind == "enum":
        return {"enum": list(param.choices)}
    if param.kind == "bool":
        return {"type": "boolean"}
    if param.kind == "swizzle":
        return {"anyOf": [_table(keys.SWIZZLE), {"enum": [False]}]}
    return {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "minLength": 1}]}


def _choices(doc: str, choices: Any) -> str:
    if isinstance(choices, Mapping):
        return doc + "".join(f"\n{name}: {text}" for name, text in choices.items())
    return f"{doc}: {' | '.join(choices)}" if choices else doc
