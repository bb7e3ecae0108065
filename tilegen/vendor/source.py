"""Where vendored files come from: a generated tree, each file of it held against the manifest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tilegen.emit.content import MANIFEST, sha256, to_json
from tilegen.vendor.lock import Form, Kernel, check_path


class SourceError(Exception):
    """The generated tree cannot be vendored from; the message says what to do."""


@dataclass(frozen=True)
class Source:
    """A generated tree and its manifest."""

    root: Path
    manifest: Mapping[str, Any]

    @property
    def kernels(self) -> tuple[str, ...]:
        return tuple(self.manifest["kernels"])

    def kernel(self, name: str, targets: tuple[str, ...] = ()) -> Kernel:
        """Where a kernel comes from. Raises :class:`SourceError` for a kernel or a target that is not there."""
        if name not in self.kernels:
            near = get_close_matches(name, self.kernels, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(self.kernels)}"
            raise SourceError(f"{self.root} holds no kernel {name}; {hint}")
        entry = self.manifest["kernels"][name]
        unknown = [arch for arch in targets if arch not in entry["targets"]]
        if unknown:
            raise SourceError(
                f"{name} is not built for {', '.join(unknown)}; its targets: {', '.join(entry['targets'])}"
            )
        chosen = tuple(arch for arch in entry["targets"] if not targets or arch in targets)
        whole = chosen == tuple(entry["targets"])
        return Kernel(entry["spec"]["path"], entry["spec"]["sha256"], entry["templates"], chosen, whole)

    def files(self, name: str, targets: tuple[str, ...] = (), form: Form = "folders") -> dict[str, bytes]:
        """The files of a kernel, by path relative to the vendored folder. Raises :class:`SourceError`."""
        kernel = self.kernel(name, targets)
        found = self._recorded(name)
        if kernel.targets != tuple(self.manifest["kernels"][name]["targets"]):
            found = self._restricted(name, kernel, found)
        if form == "single-file":
            from tilegen.vendor.single_file import single_file

            text = single_file(
                name, {path: content.decode() for path, content in found.items() if path.endswith(".py")}
            )
            return {f"{name}.py": text.encode()}
        return {f"{name}/{path}": content for path, content in found.items()}

    def _recorded(self, name: str) -> dict[str, bytes]:
        found = {}
        for path, digest in self.manifest["kernels"][name]["files"].items():
            file = self.root / name / path
            try:
                found[path] = file.read_bytes()
            except OSError as error:
                raise SourceError(f"{file} cannot be read ({error.strerror}): build the tree again") from None
            if sha256(found[path]) != digest:
                raise SourceError(f"{file} is not what the manifest says: build the tree again")
        return found

    def _restricted(self, name: str, kernel: Kernel, whole: Mapping[str, bytes]) -> dict[str, bytes]:
        """The files of a kernel printed for some of its targets only. Its goldens hold for each target alone."""
        from tilegen.emit.rendering import render

        spec = self._spec(name, kernel)
        if {path: text.encode() for path, text in render(spec).files.items()}.items() - whole.items():
            raise SourceError(f"{self.root / name} is not what this tilegen makes of its spec: build the tree again")
        chosen = tuple(target for target in spec.targets if target.arch in kernel.targets)
        files = {path: text.encode() for path, text in render(replace(spec, targets=chosen)).files.items()}
        facts = json.loads(whole["golden/facts.json"])
        facts["files"] = {path: sha256(files[path]) for path in facts["files"]}
        facts["lowering"] = [entry for entry in facts["lowering"] if entry["key"]["arch"] in kernel.targets]
        return {**whole, **files, "golden/facts.json": to_json(facts)}

    def _spec(self, name: str, kernel: Kernel) -> Any:
        from tilegen.spec import load_bytes

        path = self.root.parent / kernel.spec_path
        try:
            content = path.read_bytes()
        except OSError as error:
            raise SourceError(f"--targets prints {name} again, but {path} cannot be read ({error.strerror})") from None
        if sha256(content) != kernel.spec_sha256:
            raise SourceError(f"{path} has changed since {self.root} was built: build the tree again")
        return load_bytes(content, kernel.spec_path)


def open_source(root: Path) -> Source:
    """The generated tree at ``root``. Raises :class:`SourceError`."""
    path = root / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
        manifest["tilegen"] + manifest["tilelang"]
        for entry in manifest["kernels"].values():
            _check_entry(entry)
    except FileNotFoundError:
        raise SourceError(f"{path} does not exist; `tilegen build` writes it") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"{path} cannot be used ({error!r}): build the tree again") from None
    if not manifest["kernels"]:
        raise SourceError(f"{root} holds no kernels: `tilegen build` makes them of specs")
    return Source(root, manifest)


def _check_entry(entry: Mapping[str, Any]) -> None:
    """Raises one of the errors of a wrong type or a missing key for what is not a kernel of a manifest."""
    texts = [entry["templates"], entry["spec"]["path"], entry["spec"]["sha256"], *entry["targets"]]
    if not all(isinstance(text, str) for text in (*texts, *entry["files"].values())):
        raise TypeError("an entry that is no text")
    for name in entry["files"]:
        check_path(name)


@cache
def licence() -> bytes:
    """The licence of generated code."""
    return (resources.files("tilegen.vendor") / "LICENSE").read_bytes()


def notice(source: Source, kernels: Mapping[str, Kernel]) -> bytes:
    """NOTICE: what the folder holds and where it is from, then the notice of the project that it comes from, if any."""
    lines = [
        f"Kernels generated by tilegen {source.manifest['tilegen']} for tilelang {source.manifest['tilelang']}:",
        "",
    ]
    lines += [
        f"{_entry(name)}{kernel.spec_path} (sha256 {kernel.spec_sha256[:16]})" for name, kernel in kernels.items()
    ]
    lines += ["", "They are licensed under the Apache License, Version 2.0; see LICENSE beside this file."]
    text = "\n".join(lines) + "\n"
    own = source.root.parent / "NOTICE"
    return text.encode() + (b"\n" + own.read_bytes() if own.is_file() else b"")


def without(text: bytes, kernels: Iterable[str]) -> bytes:
    """NOTICE without the lines of some kernels."""
    gone = tuple(_entry(name).encode() for name in kernels)
    return b"".join(line for line in text.splitlines(keepends=True) if not line.startswith(gone))


def _entry(kernel: str) -> str:
    return f"  {kernel}, from "
