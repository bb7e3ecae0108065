"""Finds the prim_func behind ``FILE:FUNCTION``, a factory, or a ``tilelang.jit`` function of either style."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilegen.interp.findings import InvalidKernelError
from tilegen.interp.places import places_of_callers

_STANDARD_LIBRARY, _TILEGEN = os.path.dirname(os.__file__) + os.sep, str(Path(__file__).parents[1]) + os.sep


def load_object(reference: str) -> Any:
    """The object that ``FILE.py:NAME`` or ``package.module:NAME`` names; raises ``InvalidKernelError`` if there is none."""
    place, separator, name = reference.rpartition(":")
    if not separator or not place or not name:
        raise InvalidKernelError(f"{reference!r} does not say FILE:FUNCTION")
    module = _load_file(Path(place)) if place.endswith(".py") else _import(place)
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
            raise InvalidKernelError(f"{place} has no {name!r}; it defines {', '.join(sorted(known)) or 'nothing'}")
        found = getattr(found, part)
    return found


def _load_file(path: Path) -> Any:
    if not path.is_file():
        raise InvalidKernelError(f"there is no file {path}")
    package = _package_of(path.resolve())
    name = f"{package}.{path.stem}" if package else f"_tilegen_run_{path.stem}"
    root = path.resolve().parents[len(package.split(".")) if package else 0]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    sys.path[:0] = [str(path.parent.resolve()), str(root)] if package else [str(root)]
    try:
        with places_of_callers():
            if package:
                importlib.import_module(package)
            sys.modules[name] = module
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise InvalidKernelError(f"{path} cannot be imported: {_raised(error)}") from error
    finally:
        sys.path[:] = before
    return module


def _package_of(path: Path) -> str:
    """The dotted name of the package that a file belongs to: the folders above it that hold an ``__init__.py``."""
    names: list[str] = []
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier() and folder != folder.parent:
        names.insert(0, folder.name)
        folder = folder.parent
    return ".".join(names)


def _raised(error: BaseException) -> str:
    """What a file of the user's raised, and at which of its lines."""
    text = f"{type(error).__name__}: {str(error).strip()}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_installed(frame.filename)]
    return f"{text} (at {frames[-1].filename}:{frames[-1].lineno})" if frames else text


def _is_installed(file: str) -> bool:
    return file.startswith("<") or "site-packages" in file or file.startswith((_STANDARD_LIBRARY, _TILEGEN))


def _import(name: str) -> Any:
    try:
        with places_of_callers():
            return importlib.import_module(name)
    except ImportError as error:
        raise InvalidKernelError(f"there is no module {name}: {error}") from error
    except (Exception, SystemExit) as error:
        raise InvalidKernelError(f"the module {name} cannot be imported: {_raised(error)}") from error


def to_prim_func(
    found: Any, inputs: Mapping[str, Any] | None = None, arguments: Mapping[str, Any] | None = None
) -> Any:
    """The prim_func of ``found``: itself, a compiled kernel's, a jit function's, or what a factory returns.

    ``arguments`` go to a factory or a lazy jit function; ``inputs`` (arrays or shapes) tell an eager jit function the shapes
    and dtypes of its tensors.
    """
    given = dict(arguments or {})
    function = _known(found, inputs or {}, given)
    if function is None and callable(found):
        _check_arguments(found, given)
        found = _call(found, given)
        function = _known(found, inputs or {}, {})
    if function is None:
        raise InvalidKernelError(f"this is no prim_func, jit function or factory of one: {type(found).__name__}")
    return function


def _known(found: Any, inputs: Mapping[str, Any], given: dict[str, Any]) -> Any:
    """The prim_func that an object holds, or None for what may be a factory."""
    if hasattr(found, "get_tir"):
        return _from_jit(found, inputs, given)
    function = found if hasattr(found, "buffer_map") else getattr(found, "prim_func", None)
    if function is not None and given:
        raise InvalidKernelError(f"a prim_func has no factory arguments ({', '.join(given)}); they go to what makes it")
    return function


def _call(factory: Any, given: Mapping[str, Any], name: str = "") -> Any:
    """What a factory returns; what it raises becomes one line that says where it came from."""
    try:
        with places_of_callers():
            return factory(**given)
    except (Exception, SystemExit) as error:
        name = name or getattr(factory, "__name__", type(factory).__name__)
        raise InvalidKernelError(f"{name} raised {_raised(error)}") from error


def _check_arguments(factory: Any, given: Mapping[str, Any]) -> None:
    try:
        inspect.signature(factory).bind(**given)
    except TypeError as error:
        signature = inspect.signature(factory)
        raise InvalidKernelError(f"{getattr(factory, '__name__', 'the factory')}{signature}: {error}") from None


def _from_jit(function: Any, inputs: Mapping[str, Any], given: dict[str, Any]) -> Any:
    names = list(inspect.signature(function.func).parameters) if callable(function.func) else []
    tensors = {name: _stand_in(inputs[name]) for name in names if name in inputs and name not in given}
    try:
        inspect.signature(function.func).bind(**tensors, **given)
    except TypeError as error:
        raise InvalidKernelError(f"the jit function takes {', '.join(names)}: {error}") from None
    return _call(function.get_tir, {**tensors, **given}, getattr(function.func, "__name__", "the jit function"))


def _stand_in(value: Any) -> Any:
    """A torch tensor of the shape and dtype of an argument, which is what an eager jit function is traced with."""
    import torch

    if hasattr(value, "detach") or np.isscalar(value):
        return value
    if isinstance(value, tuple):
        return torch.empty(value, dtype=torch.float16)
    array = np.asarray(value)
    name = {"float8_e4m3": "float8_e4m3fn"}.get(array.dtype.name, array.dtype.name)
    if not isinstance(getattr(torch, name, None), torch.dtype):
        raise InvalidKernelError(f"there are no tensors of {array.dtype}")
    return torch.empty(array.shape, dtype=getattr(torch, name))
