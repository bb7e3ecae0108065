"""Names that a spec gives: identifiers that are safe in paths, in Python, and in the emitted code."""

from __future__ import annotations

import keyword
import re

MAX_LENGTH = 64
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_KERNEL = re.compile(r"[a-z][a-z0-9_]*")
_CALL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*")

# What emitted code calls by these names; a dim or tensor of the same name would shadow it.
# fmt: off
RESERVED = frozenset((
    "T", "torch", "tilelang", "tilegen", "tvm", "math", "functools", "threading", "warnings", "pytest", "numpy",
    "np", "os", "sys", "json", "hashlib", "pathlib", "logging", "int", "float", "bool", "str", "len", "range",
    "min", "max", "abs", "sum", "tuple", "list", "dict", "set", "print", "isinstance", "getattr", "property",
    "type", "object", "self", "cls", "dtype", "accum", "device", "stream", "arch", "sm_count", "kernel",
    "golden", "ceildiv", "where", "inf", "nan", "rows", "shape", "tiles", "grid", "scratch", "workspace", "compiled",
    "launch", "path", "why", "api", "dispatch", "reference", "warm_up", "explain_dispatch",
))
# fmt: on


def identifier_problem(name: str) -> str | None:
    """Why `name` cannot name a dim, tensor or scalar; None if it can."""
    if len(name) > MAX_LENGTH:
        return f"a name has at most {MAX_LENGTH} characters, and this has {len(name)}"
    if not _IDENTIFIER.fullmatch(name):
        return "a name is a letter followed by letters, digits and underscores"
    return _word_problem(name)


def suggested_kernel(name: str) -> str:
    """A help line: what of `name` could name a kernel."""
    kept = re.sub(r"[^a-z0-9]+", "_", name[:MAX_LENGTH].lower()).strip("_0123456789")
    return f"`{kept}` is such a name" if kept and kernel_problem(kept) is None else "`gemm_relu` is such a name"


def kernel_problem(name: str) -> str | None:
    """Why `name` cannot name a kernel, which is also a folder and a Python module; None if it can."""
    if len(name) > MAX_LENGTH:
        return f"a name has at most {MAX_LENGTH} characters, and this has {len(name)}"
    if not _KERNEL.fullmatch(name):
        return "a kernel's name is a lower-case letter followed by lower-case letters, digits and underscores"
    return _word_problem(name)


def call_problem(call: str) -> str | None:
    """Why `call` is no "module.sub:function"; None if it is."""
    if len(call) > 4 * MAX_LENGTH:
        return f"a callable's name has at most {4 * MAX_LENGTH} characters"
    if not _CALL.fullmatch(call):
        return 'a callable is written "module.sub:function"'
    for word in re.split(r"[.:]", call):
        if keyword.iskeyword(word):
            return f"`{word}` is a Python keyword"
    return None


def _word_problem(name: str) -> str | None:
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        return f"`{name}` is a Python keyword"
    if name in RESERVED:
        return f"emitted code uses `{name}` for something else"
    return None
