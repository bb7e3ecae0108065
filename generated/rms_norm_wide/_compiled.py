"""Compiled kernels by compile key: from a library of aot/, which needs torch alone, or compiled by TileLang at first use.

This file is the same beside every kernel. Both kinds answer to ``bind(device, shapes)``, which gives the function that
launches: it takes the tensors of the prim_func in their order, of any shape with the same elements, and its scalars.
"""

import ctypes
import hashlib
import json
import logging
import struct
import threading
import time
import warnings
from pathlib import Path

import torch

from ._runtime import current_device, raw_stream, tilelang_target

ABI = 1
"""Of the libraries: what `tilegen build --aot` of this version writes."""

# The C type of an argument, and how `struct` packs it.
PACKED = {"CUdeviceptr": "Q", "int32_t": "i", "int64_t": "q", "float": "f", "double": "d"}

MISALIGNED = -2
"""What a launcher returns for an address that its kernel cannot read from."""

address = torch.Tensor.data_ptr

logger = logging.getLogger(__name__)


class LibraryError(RuntimeError):
    """There is no library for a compile key, or it is damaged, of another kernel, or refused by the driver."""


class KernelCache:
    """Compiled kernels by key. Each is made once, by whichever thread asks first; others wait for it.

    ``build(**key)`` gives the prim_func; ``key["arch"]`` names the chip. A library of ``aot/`` beside this file comes
    first. Without one TileLang compiles; it keeps what it compiled on disk, so a second process loads it.
    """

    def __init__(self, build):
        self.build = build
        self.compile_seconds = {}
        self._libraries = Libraries(Path(__file__).parent / "aot")
        self._missing = "jit"
        self._kernels = {}
        self._locks = {}
        self._lock = threading.Lock()

    def use_libraries(self, folder=None, missing="jit"):
        """Takes libraries from ``folder``; what it lacks is compiled (``missing="jit"``) or an error (``"error"``)."""
        if missing not in ("jit", "error"):
            raise ValueError(f'missing must be "jit" or "error", got {missing!r}')
        if folder is not None and not (Path(folder) / "manifest.json").is_file():
            raise LibraryError(f"{folder} holds no manifest.json: give a folder aot/ that `tilegen build --aot` wrote")
        with self._lock:
            self._libraries = Libraries(Path(__file__).parent / "aot" if folder is None else Path(folder))
            self._missing = missing
            self._kernels.clear()

    def has_library(self, key):
        """Whether a call of this key needs no compiler."""
        try:
            return _index(key) in self._libraries.entries()
        except LibraryError:
            return False

    def get(self, **key):
        index = tuple(key.items())
        kernel = self._kernels.get(index)
        return self._make(index, key) if kernel is None else kernel

    def _make(self, index, key):
        with self._lock:
            lock = self._locks.setdefault(index, threading.Lock())
        with lock:
            kernel = self._kernels.get(index)
            if kernel is None:
                kernel = self._library(key) or self._compile(index, key)
                self._kernels[index] = kernel
        return kernel

    def _library(self, key):
        try:
            return self._libraries.load(key, required=self._missing == "error")
        except LibraryError as error:
            if self._missing == "error":
                raise
            warnings.warn(f"{error}. TileLang compiles the kernel instead", stacklevel=6)
            return None

    def _compile(self, index, key):
        try:
            import tilelang
        except ImportError as error:
            raise LibraryError(f"{self._libraries.lacks(key)}, and TileLang is not there to compile it") from error
        started = time.perf_counter()
        kernel = Jitted(tilelang.compile(self.build(**key), target=tilelang_target(key["arch"])))
        self.compile_seconds[index] = time.perf_counter() - started
        logger.info("compiled %s in %.1f s", label_of(key), self.compile_seconds[index])
        return kernel


def label_of(key):
    return ", ".join(f"{name}={value}" for name, value in key.items())


class Jitted:
    """A kernel that TileLang compiled in this process."""

    def __init__(self, kernel):
        self._run = _entry(kernel)

    def bind(self, device, shapes):
        """``launch(tensors, *scalars)`` for tensors with the elements of ``shapes``.

        ``shapes`` has an entry for each argument of the prim_func in its order, None for a scalar; scalars behind the last
        tensor need none.
        """
        run, index = self._run, device.index
        places = [place for place, shape in enumerate(shapes) if shape is not None]
        scalar_places = [place for place, shape in enumerate(shapes) if shape is None]
        ranks = [len(shapes[place]) for place in places]

        def launch(tensors, *scalars):
            arguments = [None] * len(shapes)
            for place, rank, tensor in zip(places, ranks, tensors, strict=True):
                if tensor.data_ptr() & 15 and (rank > 1 or tensor.is_floating_point()):
                    raise ValueError(f"argument {place} starts at an address that is not a multiple of 16 bytes")
                # Of the same rank it has the same shape: the wrapper has checked it.
                arguments[place] = tensor if tensor.dim() == rank else tensor.view(shapes[place])
            for place, scalar in zip(scalar_places, scalars, strict=False):
                arguments[place] = scalar
            arguments += scalars[len(scalar_places) :]
            if index is None or index == current_device():
                run(*arguments)
            else:
                with torch.cuda.device(device):
                    run(*arguments)

        return launch


def _entry(kernel):
    """The function below TileLang's Python layer, which would look at every argument once more."""
    try:
        executable = kernel.adapter.get_exportable_executable()
        return (executable.jit() if hasattr(executable, "jit") else executable).main
    except AttributeError:
        return kernel


class Libraries:
    """The libraries of one folder, by compile key. The folder is read when a key is first asked for."""

    def __init__(self, folder):
        self.folder = folder
        self._entries = None

    def load(self, key, required):
        """The library of ``key``, loaded and whole; None if there is none, :class:`LibraryError` if it is required."""
        entry = self.entries().get(_index(key))
        if entry is None:
            if required:
                raise LibraryError(self.lacks(key))
            return None
        path = self.folder / entry["file"]
        try:
            found = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        except OSError as error:
            raise LibraryError(f"{path} cannot be read ({error.strerror})") from error
        if found != entry["sha256"]:
            state = "is missing" if found is None else "is not what its manifest says"
            raise LibraryError(f"{path} {state}: run `tilegen build --aot` again")
        return Library(path, entry["parameters"])

    def lacks(self, key):
        return f"{self.folder} has no library for {label_of(key)}: `tilegen build --aot {key['arch']}` makes it"

    def entries(self):
        if self._entries is None:
            self._entries = self._read()
        return self._entries

    def _read(self):
        path, source = self.folder / "manifest.json", Path(__file__).parent / "kernel.py"
        if not path.exists():
            return {}
        if not source.exists():
            raise LibraryError(f"{self.folder} goes with a kernel.py, and there is none beside {Path(__file__).name}")
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
            if manifest["abi"] != ABI:
                abi = manifest["abi"]
                raise LibraryError(f"{self.folder} was written for another loader (ABI {abi}, here {ABI})")
            kernel = hashlib.sha256(source.read_bytes()).hexdigest()
            if kernel != manifest["kernel_sha256"]:
                raise LibraryError(
                    f"{self.folder} was compiled from another kernel.py: run `tilegen build --aot` again"
                )
            return {_index(entry["key"]): _checked(entry) for entry in manifest["libraries"]}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LibraryError(f"{path} cannot be read ({error!r}): run `tilegen build --aot` again") from error


def _checked(entry):
    """An entry of a manifest that has all that :class:`Library` reads."""
    entry["file"] + entry["sha256"], [PACKED[c_type] for _, _, c_type, _, _ in entry["parameters"]]
    return entry


def _index(key):
    return json.dumps(key, sort_keys=True)


class Library:
    """A launcher with its cubin: packs the arguments, and calls the driver through it."""

    def __init__(self, path, parameters):
        try:
            library = ctypes.CDLL(str(path))
            self._load, self._error, self._launch = library.tilegen_load, library.tilegen_error, library.tilegen_launch
        except (OSError, AttributeError) as error:
            raise LibraryError(f"{path} cannot be loaded: {error}") from error
        self._path = path
        self._error.restype = ctypes.c_char_p
        self._launch.argtypes = (ctypes.c_char_p,)
        self._pack = struct.Struct("@iP" + "".join(PACKED[c_type] for _, _, c_type, _, _ in parameters)).pack
        self._dims = [(tensor, axis) for _, kind, _, tensor, axis in parameters if kind == "dim"]

    def bind(self, device, shapes):
        """As :meth:`Jitted.bind`. Loads the code onto the device."""
        index = device.index
        if self._load(index):
            self._fail(-1)
        run, pack, fail = self._launch, self._pack, self._fail
        tensor_shapes = [shape for shape in shapes if shape is not None]
        dims = [tensor_shapes[tensor][axis] for tensor, axis in self._dims]

        def launch(tensors, *scalars):
            status = run(pack(index, raw_stream(index), *map(address, tensors), *scalars, *dims))
            if status:
                fail(status)

        return launch

    def _fail(self, status):
        error = ValueError if status == MISALIGNED else LibraryError
        raise error(f"{self._path.name}: {self._error().decode()}")
