"""What ptxas makes of a CUDA source: registers, spills, stack, static shared memory, and what it warns of.

nvcc spends several seconds a kernel in the CUTLASS headers, so results are kept by content: the key is the source, the
chip, the flags and the versions of nvcc and tilelang. The cache may be deleted at any time, and may be shared.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

CACHE_VARIABLE = "TILEGEN_CACHE_DIR"
SCHEMA = 1
TIMEOUT_SECONDS = 600


@dataclass(frozen=True)
class KernelUsage:
    """One entry function."""

    name: str
    registers: int
    """A thread at launch; a kernel that reallocates is capped by its launch bounds here."""
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    static_bytes: int
    """Static shared memory, padded to the alignment of the dynamic arena."""

    @property
    def spills(self) -> bool:
        return self.spill_store_bytes > 0 or self.spill_load_bytes > 0


@dataclass(frozen=True)
class PtxasFacts:
    arch: str
    kernels: tuple[KernelUsage, ...]
    warnings: tuple[str, ...]
    """Codes and texts of performance notes, e.g. `C7511` for WGMMA that was serialised."""
    compiler: str

    def kernel(self, name: str) -> KernelUsage:
        """The entry function of this name. Raises KeyError."""
        return {k.name: k for k in self.kernels}[name]

    @property
    def serialised_wgmma(self) -> bool:
        return any(w.startswith(("C7510", "C7511", "C7512", "C7514")) for w in self.warnings)


class CompileError(Exception):
    """nvcc refused the source. `reason` is its first error."""

    def __init__(self, arch: str, output: str) -> None:
        self.arch = arch
        errors = [line.strip() for line in output.splitlines() if "error" in line.lower()]
        self.reason = (errors or output.strip().splitlines() or ["nvcc failed"])[0]
        super().__init__(f"nvcc cannot compile for {arch}: {self.reason}")


def compile_facts(cuda_source: str, arch: str, flags: Sequence[str] = ()) -> PtxasFacts | None:
    """Compile a kernel that TileLang generated and read what ptxas prints; None where there is no nvcc.

    `arch`: `sm_90a` and the like. `flags`: further options of nvcc. Raises `CompileError`.
    """
    compiler = nvcc()
    if compiler is None:
        return None
    command = [*_options(arch), *flags]
    entry = _cache_entry(cuda_source, arch, (nvcc_version(), version("tilelang"), *_stable(command)))
    known = _read(entry)
    if known is None:
        known = _parse(arch, _compile(compiler, command, arch, cuda_source))
        _write(entry, known)
    return known


def compile_together(cuda_sources: Sequence[str], arch: str) -> list[PtxasFacts | None]:
    """The same for several sources: those that are not kept yet go through one run of nvcc, which then reads the headers
    once. Raises `CompileError` if one of them does not compile, whichever it is.
    """
    compiler = nvcc()
    if compiler is None:
        return [None for _ in cuda_sources]
    command = _options(arch)
    settings = (nvcc_version(), version("tilelang"), *_stable(command))
    entries = {source: _cache_entry(source, arch, settings) for source in cuda_sources}
    facts = {source: known for source, entry in entries.items() if (known := _read(entry)) is not None}
    missing = [source for source in entries if source not in facts]
    if missing:
        told_apart = [_KERNEL.sub(rf"\g<0>_of_{index}", source) for index, source in enumerate(missing)]
        found = _parse(arch, _compile(compiler, command, arch, "\n".join(told_apart)))
        for index, source in enumerate(missing):
            facts[source] = _part(found, f"_of_{index}")
            _write(entries[source], facts[source])
    return [facts[source] for source in cuda_sources]


_KERNEL = re.compile(r"\b\w+_kernel(?:_\d+)?\b(?=\s*\()")
"""The name of a kernel where it is declared or defined."""


def _part(found: PtxasFacts, mark: str) -> PtxasFacts:
    """What is said of the kernels whose names end in a mark, with their own names."""
    kernels = [replace(k, name=k.name.removesuffix(mark)) for k in found.kernels if k.name.endswith(mark)]
    warnings = tuple(w.replace(mark, "") for w in found.warnings if re.search(mark + r"\b", w))
    return replace(found, kernels=tuple(sorted(kernels, key=lambda k: k.name)), warnings=warnings)


def nvcc() -> str | None:
    """The compiler: on PATH, else below CUDA_HOME or CUDA_PATH."""
    homes = (os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH"))
    found = (shutil.which("nvcc", path=os.path.join(home, "bin")) for home in homes if home)
    return shutil.which("nvcc") or next((path for path in found if path), None)


@cache
def nvcc_version() -> str | None:
    """The release of nvcc, e.g. `13.0`; None where there is none."""
    compiler = nvcc()
    if compiler is None:
        return None
    text = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"release (\S+),", text)
    return found.group(1) if found else text.strip()


def cache_directory() -> Path:
    """`$TILEGEN_CACHE_DIR`, or the user's cache folder."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("tilegen", appauthor=False))


def _options(arch: str) -> list[str]:
    includes = [f"-I{path}" for path in header_folders()]
    return ["-cubin", "-std=c++20", f"-arch={arch}", "-Xptxas=-v", "-w", *includes]


def header_folders() -> tuple[Path, Path]:
    """Where the headers lie that a generated source includes: TileLang's own, and CUTLASS."""
    package = find_spec("tilelang")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("tilelang is not installed: its headers are needed to compile a kernel")
    root = Path(package.submodule_search_locations[0])
    return root / "src", root / "3rdparty" / "cutlass" / "include"


def _stable(command: Sequence[str]) -> list[str]:
    """The options that change the result: not the folder that the headers happen to lie in."""
    return [option for option in command if not option.startswith("-I")]


def _compile(compiler: str, command: Sequence[str], arch: str, source: str) -> str:
    with tempfile.TemporaryDirectory(prefix="tilegen-") as folder:
        path = Path(folder, "kernel.cu")
        path.write_text(source, encoding="utf-8")
        done = subprocess.run(
            [compiler, *command, path.name, "-o", "kernel.cubin"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )
    output = done.stderr + done.stdout
    if done.returncode:
        raise CompileError(arch, output)
    return output


_ENTRY = re.compile(r"Compiling entry function '(?P<name>[^']+)'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(?P<rest>.*)")
_SMEM = re.compile(r"(\d+) bytes smem")
_NOTE = re.compile(r"\((C\d{4})\) (.+)")


def _parse(arch: str, output: str) -> PtxasFacts:
    kernels: list[KernelUsage] = []
    name, frame = "", (0, 0, 0)
    for line in output.splitlines():
        if entry := _ENTRY.search(line):
            name, frame = entry["name"], (0, 0, 0)
        elif stack := _STACK.search(line):
            frame = (int(stack[1]), int(stack[2]), int(stack[3]))
        elif used := _USED.search(line):
            smem = _SMEM.search(used["rest"])
            kernels.append(KernelUsage(name, int(used[1]), *frame, int(smem[1]) if smem else 0))
    notes = dict.fromkeys(f"{note[1]} {note[2].strip()}" for note in _NOTE.finditer(output))
    return PtxasFacts(arch, tuple(sorted(kernels, key=lambda k: k.name)), tuple(notes), f"nvcc {nvcc_version()}")


def _cache_entry(source: str, arch: str, settings: Sequence[str | None]) -> Path:
    key = hashlib.sha256(json.dumps([SCHEMA, arch, *settings, source]).encode()).hexdigest()
    return cache_directory() / "ptxas" / key[:2] / f"{key}.json"


def _read(entry: Path) -> PtxasFacts | None:
    """What was kept, or None: a missing, cut or strange file is compiled again."""
    try:
        kept = json.loads(entry.read_text(encoding="utf-8"))
        kernels = tuple(KernelUsage(**kernel) for kernel in kept.pop("kernels"))
        return PtxasFacts(kernels=kernels, warnings=tuple(kept.pop("warnings")), **kept)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _write(entry: Path, facts: PtxasFacts) -> None:
    """Atomic: a reader sees all of it or nothing. A cache that cannot be written costs time, not the result."""
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=entry.parent, suffix=".tmp", delete=False, encoding="utf-8") as file:
            json.dump(asdict(facts), file, indent=1)
        os.replace(file.name, entry)
    except OSError:
        return
