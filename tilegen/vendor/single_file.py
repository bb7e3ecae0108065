"""One self-contained module from the package of a kernel: what its public functions reach, and nothing else.

The modules are joined under one set of names. ``kernel.build`` becomes ``build``; where two modules have a name in
common, or a function that mentions it has a local of that name, it becomes ``kernel_build``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

import libcst as cst

from tilegen.vendor.scopes import Module, Name, Renamer, bound, import_of, names_in, references

SECTIONS = {
    "kernel": "The kernel: its domain, the tile rules, a prim_func for each schedule, the compile keys.",
    "_runtime": "At run time: which chip this is, checking tensors, what dispatch asks.",
    "_launching": "What stands between a call and its launch.",
    "_compiled": "Compiled kernels by compile key.",
    "_golden": "Random inputs, for timing.",
    "reference": "",
    "api": "The public functions: checks, and the torch custom op.",
    "dispatch": "The first path that serves a call: hand-tuned callables, the kernel, plain torch.",
}
"""The order of the modules, each after those that it needs when it is imported, and what heads it."""


def single_file(kernel: str, modules: Mapping[str, str]) -> str:
    """The text of ``<kernel>.py`` from the Python files of its package, by file name."""
    parsed = {
        path.removesuffix(".py"): Module(path.removesuffix(".py"), text)
        for path, text in modules.items()
        if not path.startswith("test_")
    }
    public = [target for _, target in sorted(parsed.pop("__init__").imported.items())]
    kept = _reached(parsed, public)
    names = _final_names(parsed, kept)
    order = [*(name for name in SECTIONS if name in parsed), *sorted(parsed.keys() - SECTIONS.keys())]
    order.sort(key=lambda name: name in ("api", "dispatch"))
    sections = [text for name in order if (text := _section(parsed[name], kept, names))]
    external = {line for name in order for line in _external(parsed[name], kept)}
    listed = "\n".join(f'    "{name}",' for name in sorted(name for _, name in public))
    head = [_docstring(kernel, parsed["kernel"]), _import_block(external), f"__all__ = [\n{listed}\n]"]
    return "\n\n".join(head) + "\n\n\n" + "\n\n\n".join(sections) + "\n"


def _reached(modules: Mapping[str, Module], public: list[Name]) -> set[Name]:
    """Every name that the public ones need."""
    kept: set[Name] = set()
    pending = list(public)
    while pending:
        name = pending.pop()
        if name in kept:
            continue
        kept.add(name)
        for statement, defined in modules[name[0]].statements:
            if name[1] in defined or _registers(modules[name[0]], statement, name):
                pending += [target for _, target in references(modules[name[0]], statement)]
    return kept


def _registers(module: Module, statement: cst.CSTNode, name: Name) -> bool:
    """Whether a statement hands something to ``name``: an unnamed function by its decorator, or ``name.method(...)``."""
    if isinstance(statement, cst.FunctionDef) and statement.name.value == "_":
        return any(target == name for decorator in statement.decorators for _, target in references(module, decorator))
    if isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Expr):
        call = statement.body[0].value
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
            return module.target(call.func.value) == name
    return False


def _kept_statements(module: Module, kept: set[Name]) -> Iterator[cst.BaseStatement]:
    own = [name for name in kept if name[0] == module.name]
    for statement, defined in module.statements:
        if any(name[1] in defined or _registers(module, statement, name) for name in own):
            yield statement


def _final_names(modules: Mapping[str, Module], kept: set[Name]) -> dict[Name, str]:
    """The name of each kept one in the joined module; public modules keep theirs."""
    holders: dict[str, list[str]] = {}
    for module, name in kept:
        holders.setdefault(name, []).append(module)
    clashing = {name for name, found in holders.items() if len(found) > 1}
    for parsed in modules.values():
        for statement, _ in parsed.statements:
            clashing |= {
                target[1]
                for node, target in references(parsed, statement)
                if target[0] != parsed.name and parsed.hidden(node, target[1])
            }
    return {
        (module, name): name if module in ("api", "dispatch") or name not in clashing else _prefixed(module, name)
        for module, name in kept
    }


def _prefixed(module: str, name: str) -> str:
    prefix = module.strip("_")
    return f"{prefix.upper()}_{name}" if name.isupper() else f"{prefix}_{name}"


def _section(module: Module, kept: set[Name], names: Mapping[Name, str]) -> str:
    """The kept statements of a module under their new names."""
    pieces = []
    for statement in _kept_statements(module, kept):
        renamed = statement.visit(Renamer(module, names))
        assert isinstance(renamed, cst.BaseStatement)
        pieces.append((statement, module.tree.code_for_node(renamed).strip("\n")))
    if not pieces:
        return ""
    title = SECTIONS.get(module.name, "")
    text = f"# {title}\n" if title else ""
    for index, (statement, code) in enumerate(pieces):
        large = isinstance(statement, (cst.FunctionDef, cst.ClassDef))
        if index:
            before = isinstance(pieces[index - 1][0], (cst.FunctionDef, cst.ClassDef))
            gap = "\n\n\n" if large or before else "\n\n" if _is_spaced(statement) else "\n"
            text += gap + code
        else:
            text += ("\n\n" if large and title else "\n" if title else "") + code
    return text


def _is_spaced(statement: cst.CSTNode) -> bool:
    """Whether the statement stood apart from the one before it."""
    return bool(getattr(statement, "leading_lines", ()))


def _external(module: Module, kept: set[Name]) -> Iterator[str]:
    """The lines that import from outside the package what the kept statements use."""
    used = {node.value for statement in _kept_statements(module, kept) for node in names_in(statement)}
    for entry in module.tree.body:
        node = import_of(entry)
        if isinstance(node, cst.Import):
            for alias in node.names:
                if bound(alias) in used:
                    yield module.tree.code_for_node(cst.Import([alias.with_changes(comma=cst.MaybeSentinel.DEFAULT)]))
        elif isinstance(node, cst.ImportFrom) and not node.relative and not isinstance(node.names, cst.ImportStar):
            for alias in node.names:
                if bound(alias) in used:
                    yield f"from {module.tree.code_for_node(node.module)} import {bound(alias)}" if node.module else ""


def _import_block(lines: set[str]) -> str:
    """Imports as linters sort them: the standard library, then the rest."""
    order = sorted(lines, key=lambda line: (line.startswith("from"), line))
    standard = [line for line in order if line.split()[1].split(".")[0] in sys.stdlib_module_names]
    others = [line for line in order if line not in standard]
    return "\n\n".join("\n".join(group) for group in (standard, others) if group)


def _docstring(kernel: str, module: Module) -> str:
    text = module.tree.get_docstring(clean=False) or kernel
    first, _, rest = text.partition("\n\n")
    added = (
        "In one file: the kernel, what it needs at run time, and its public functions. Where a comment names another\n"
        "file, that one stands beside the source of the kernel, as do its golden tests."
    )
    return f'"""{first}\n\n{added}\n\n{rest.rstrip()}\n"""'
