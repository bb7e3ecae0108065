"""``tilegen build --aot``: the libraries of each kernel, in ``aot/`` beside its source, with a manifest.

A library holds the cubin of one compile key and the host code that launches it. The folder holds what was asked for last,
and nothing else; what is compiled once is kept in the cache by content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilegen import __version__
from tilegen.aot.compile import compile_keys, compile_library
from tilegen.aot.launcher import ABI
from tilegen.emit.content import sha256, to_json
from tilegen.emit.rendering import TILELANG_VERSION
from tilegen.emit.tree import LIBRARIES, locked, replace_tree


class LibrariesError(Exception):
    """Why a library was not built; nothing was written. One line for each key that failed."""


@dataclass(frozen=True)
class Job:
    kernel: str
    source: str
    key: Mapping[str, Any]

    @property
    def stem(self) -> str:
        """The path of its files below ``aot/`` without a suffix: ``sm_90a/float16-N1024-K1024-stream_k-64x64`` ..."""
        words = [
            f"{name}{value}" if name.isupper() else str(value) for name, value in self.key.items() if name != "arch"
        ]
        return f"{self.key['arch']}/{'-'.join(words)}"


def build_libraries(
    kernels: Iterable[str],
    generated: Path,
    arches: Iterable[str],
    *,
    dims: Mapping[str, list[int]] | None = None,
    workers: int = 1,
    progress: Callable[[str, int], None] = lambda _message, _total: None,
) -> dict[str, int]:
    """Compiles the kernels of a generated tree for ``arches`` and writes ``aot/`` beside each; how many libraries each has.
    A kernel with none of the targets has none, and is left alone.

    ``dims`` gives the sizes of some dims instead of the listed ones. Raises :class:`LibrariesError`.
    """
    from tilegen.verify.pipeline import pool

    kernels, arches = list(kernels), list(arches)
    sources = {kernel: (generated / kernel / "kernel.py").read_text(encoding="utf-8") for kernel in kernels}
    with pool(workers) as executor:
        asked = {
            (kernel, arch): executor.submit(compile_keys, source, arch, dict(dims or {}))
            for kernel, source in sources.items()
            for arch in arches
        }
        jobs = [Job(kernel, sources[kernel], key) for (kernel, _), keys in asked.items() for key in keys.result()]
        running: dict[Future[dict[str, Any]], Job] = {
            executor.submit(compile_library, job.source, dict(job.key), f"{job.kernel} {job.stem}"): job for job in jobs
        }
        found: dict[int, dict[str, Any]] = {}
        for future in as_completed(running):
            job = running[future]
            found[id(job)] = future.result()
            progress(f"{job.kernel} {job.stem}", len(jobs))
    failed = [f"{job.kernel} {job.stem}: {found[id(job)]['error']}" for job in jobs if "error" in found[id(job)]]
    if failed:
        raise LibrariesError("\n".join(failed))
    with locked(generated):
        for kernel in kernels:
            own = [(job, found[id(job)]) for job in jobs if job.kernel == kernel]
            if not own:
                continue
            replace_tree(generated / kernel / LIBRARIES, _folder(sources[kernel], own))
    return {kernel: sum(job.kernel == kernel for job in jobs) for kernel in kernels}


def _folder(source: str, libraries: list[tuple[Job, dict[str, Any]]]) -> dict[str, bytes]:
    """Every file of ``aot/``: a library, its device source and its host source for each key, and the manifest."""
    files: dict[str, bytes] = {}
    entries = []
    for job, compiled in libraries:
        if f"{job.stem}.so" in files:
            raise LibrariesError(f"two compile keys of {job.kernel} would share the name {job.stem}")
        files[f"{job.stem}.so"] = compiled["library"]
        files[f"{job.stem}.cu"] = compiled["cu"].encode()
        files[f"{job.stem}.c"] = compiled["c"].encode()
        entries.append(
            {
                "key": dict(job.key),
                "file": f"{job.stem}.so",
                "sha256": sha256(compiled["library"]),
                "parameters": compiled["parameters"],
            }
        )
    manifest = {
        "abi": ABI,
        "kernel_sha256": sha256(source.encode()),
        "tilegen": __version__,
        "tilelang": TILELANG_VERSION,
        "libraries": entries,
    }
    files["manifest.json"] = to_json(manifest)
    return files
