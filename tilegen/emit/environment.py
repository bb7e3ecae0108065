"""The jinja environment of every template: sandboxed, strict about undefined names, no escaping of Python text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import PackageLoader, PrefixLoader, StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from tilegen.emit import format as layout


@cache
def environment() -> ImmutableSandboxedEnvironment:
    """Templates are named ``shared/<file>``, ``aot/<file>`` and ``<family>/<file>``."""
    from tilegen.families import names

    loaders = {"shared": PackageLoader("tilegen.emit", "templates"), "aot": PackageLoader("tilegen.aot", ".")}
    for family in names():
        loaders[family] = PackageLoader(f"tilegen.families.{family}", ".")
    found = ImmutableSandboxedEnvironment(
        loader=PrefixLoader(loaders),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters.update(
        attribute_text=layout.attribute_text,
        dict_text=layout.dict_text,
        filled=layout.filled,
        tuple_text=layout.tuple_text,
    )
    found.globals.update(
        call_text=layout.call_text,
        all_text=layout.all_text,
        condition_text=layout.condition_text,
        domain_entry=layout.domain_entry,
        given_tolerance=layout.given_tolerance,
        list_text=layout.list_text,
        mapping_text=layout.mapping_text,
        shapes_text=layout.shapes_text,
        sum_text=layout.sum_text,
    )
    return found


def render_template(name: str, context: Mapping[str, Any]) -> str:
    """The text of one template; a name that the context lacks raises ``jinja2.UndefinedError``."""
    return environment().get_template(name).render(context)
