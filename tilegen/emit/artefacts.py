"""The generated tree: every kernel's folder with its goldens, and the manifest over all of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tilegen import __version__
from tilegen.emit.content import sha256, to_json
from tilegen.emit.rendering import TILELANG_VERSION, Rendering, template_digest
from tilegen.plan.instances import Instance, instances
from tilegen.spec.model import Swizzle

if TYPE_CHECKING:
    from tilegen.spec.model import Spec
    from tilegen.verify.pipeline import Verified

SOURCES = (
    "__init__.py",
    "_compiled.py",
    "_golden.py",
    "_launching.py",
    "_runtime.py",
    "api.py",
    "dispatch.py",
    "kernel.py",
    "module.py",
    "reference.py",
)


def kernel_folder(
    spec: Spec,
    rendering: Rendering,
    verified: Iterable[Verified],
    output_cases: list[dict[str, Any]],
    outputs: Mapping[str, bytes],
    recorded: bytes | None,
    targets: tuple[str, ...] = (),
) -> dict[str, bytes]:
    """Every file of ``generated/<kernel>/`` by path relative to it.

    ``recorded`` is the ``facts.json`` on disk, if any. Where only ``targets`` were lowered, the facts of the others are
    taken from it. Raises :class:`StaleFactsError` where they belong to another kernel source.
    """
    files = {name: text.encode() for name, text in rendering.files.items()}
    known = _recorded_lowering(recorded, sha256(files["kernel.py"]))
    lowering = [
        {
            "name": entry.job.name,
            "key": dict(entry.job.key),
            "facts": entry.observed["golden"],
            "resources": _resources(entry, known.get(entry.job.name, {}).get("resources")),
        }
        for entry in verified
    ]
    if targets and any(target.arch not in targets for target in spec.targets):
        if not known:
            raise StaleFactsError(f"{spec.kernel} is new or changed: build it for all of its targets, without --target")
        lowered = {entry["name"]: entry for entry in lowering}
        lowering = [lowered.get(name, entry) for name, entry in known.items()]
    facts = {
        "spec": spec_entry(spec),
        "tilegen": __version__,
        "tilelang": TILELANG_VERSION,
        "files": {name: sha256(files[name]) for name in SOURCES if name in files},
        "lowering": lowering,
        "outputs": output_cases,
    }
    files["golden/facts.json"] = to_json(facts)
    for name, content in outputs.items():
        files[f"golden/{name}.npy"] = content
    return files


def spec_entry(spec: Spec) -> dict[str, str]:
    """What a kernel was made of: the spec, and its lock where it has one."""
    entry = {"path": spec.path, "sha256": spec.sha256}
    return entry if spec.lock is None else {**entry, "lock": spec.lock.path, "lock_sha256": spec.lock.sha256}


class StaleFactsError(Exception):
    """Facts on disk belong to another kernel source, so they cannot stand beside new ones."""


def _recorded_lowering(recorded: bytes | None, kernel_sha256: str) -> dict[str, Any]:
    """The lowering entries on disk by name, where they belong to the same kernel source."""
    try:
        facts = json.loads(recorded or b"{}")
        if facts.get("files", {}).get("kernel.py") != kernel_sha256 or facts.get("tilelang") != TILELANG_VERSION:
            return {}
        return {entry["name"]: dict(entry) for entry in facts["lowering"]}
    except (ValueError, KeyError, TypeError, AttributeError):  # damaged: they are recorded anew
        return {}


def _resources(entry: Verified, known: dict[str, Any] | None) -> dict[str, Any] | None:
    """Registers and spills as ptxas says; those on disk where there is no nvcc, or another version of it.

    So a machine without nvcc, or with a newer one, gives the same bytes as the machine that recorded them.
    """
    found = entry.observed["ptxas"]
    if found is None or (known is not None and known["compiler"] != found["compiler"]):
        return known
    return {"compiler": found["compiler"], "kernels": found["kernels"]}


def compile_key(instance: Instance, parameters: Iterable[str]) -> dict[str, Any]:
    """The arguments of the kernel's ``build`` for an instance."""
    tiles = {
        name: value.word if isinstance(value, Swizzle) else value
        for name, value in instance.tiles.items()
        if name in ("schedule", *parameters)
    }
    dtype = next(iter(instance.dtypes.values()))
    return {"arch": instance.arch, "dtype": dtype, **instance.static_dims, **tiles}


def compile_keys(spec: Spec, parameters: Iterable[str]) -> list[dict[str, Any]]:
    """Every compile key of the listed dims on every target, each once."""
    parameters = tuple(parameters)
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for target in spec.targets:
        for instance in instances(spec, target.arch):
            key = compile_key(instance, parameters)
            found.setdefault(tuple(key.items()), key)
    return list(found.values())


def manifest(folders: Mapping[str, Mapping[str, bytes]], entries: Mapping[str, Mapping[str, Any]]) -> bytes:
    """``manifest.json``: for each kernel its spec, targets, compile keys and the sha256 of every file."""
    kernels = {
        kernel: {**entries[kernel], "files": {name: sha256(content) for name, content in files.items()}}
        for kernel, files in folders.items()
    }
    return to_json({"tilegen": __version__, "tilelang": TILELANG_VERSION, "kernels": kernels})


def manifest_entry(spec: Spec, parameters: Iterable[str]) -> dict[str, Any]:
    return {
        "spec": spec_entry(spec),
        "family": spec.family,
        "variant": spec.variant,
        "templates": template_digest(spec.family),
        "targets": [target.arch for target in spec.targets],
        "compile_keys": compile_keys(spec, parameters),
    }
