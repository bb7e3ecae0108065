"""Where a compiled kernel comes from: a library of aot/, or TileLang, once for each key; and what is said where neither is."""

import _ctypes
import hashlib
import json
import shutil
import sys
import threading
import time
import types
import warnings

import pytest

KEY = {"arch": "sm_90a", "dtype": "float16", "C": 64}


@pytest.fixture
def compiled(support, monkeypatch, tmp_path):
    """The module beside a kernel, whose folder is ``tmp_path``."""
    module = support("compiled")
    monkeypatch.setattr(module, "__file__", str(tmp_path / "_compiled.py"))
    (tmp_path / "kernel.py").write_text("the kernel")
    return module


@pytest.fixture
def tilelang(monkeypatch):
    """A TileLang that takes its time and counts."""
    fake = types.ModuleType("tilelang")
    fake.compiled = []

    def compile_(prim_func, target):
        time.sleep(0.05)
        fake.compiled.append((prim_func, target))
        return lambda *_arguments: None

    fake.compile = compile_
    monkeypatch.setitem(sys.modules, "tilelang", fake)
    return fake


def write_manifest(folder, libraries=(), **changes):
    aot = folder / "aot"
    aot.mkdir(exist_ok=True)
    manifest = {"abi": 1, "kernel_sha256": hashlib.sha256(b"the kernel").hexdigest(), "libraries": list(libraries)}
    (aot / "manifest.json").write_text(json.dumps({**manifest, **changes}))
    return aot


def build(**key):
    return tuple(key.items())


def test_threads_that_ask_for_one_key_compile_it_once(compiled, tilelang):
    cache = compiled.KernelCache(build)
    found = []
    threads = [threading.Thread(target=lambda: found.append(cache.get(**KEY))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tilelang.compiled) == 1
    assert len({id(kernel) for kernel in found}) == 1
    assert tilelang.compiled[0] == (build(**KEY), {"kind": "cuda", "arch": "sm_90a"})


def test_two_keys_compile_at_once(compiled, tilelang):
    cache = compiled.KernelCache(build)
    barrier = threading.Barrier(2, timeout=10)
    tilelang.compile = lambda *_args, **_options: barrier.wait()
    threads = [threading.Thread(target=cache.get, kwargs={**KEY, "C": width}) for width in (64, 128)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not barrier.broken


def test_without_a_library_and_without_tilelang_the_error_says_what_makes_one(compiled, monkeypatch):
    monkeypatch.setitem(sys.modules, "tilelang", None)
    with pytest.raises(
        compiled.LibraryError, match=r"no library for arch=sm_90a.*`tilegen build --aot sm_90a` makes it"
    ):
        compiled.KernelCache(build).get(**KEY)


def test_a_missing_key_is_an_error_where_the_caller_says_so(compiled, tilelang, tmp_path):
    write_manifest(tmp_path)
    cache = compiled.KernelCache(build)
    cache.use_libraries(missing="error")
    with pytest.raises(compiled.LibraryError, match="has no library for arch=sm_90a, dtype=float16, C=64"):
        cache.get(**KEY)
    cache.use_libraries(missing="jit")
    cache.get(**KEY)
    assert len(tilelang.compiled) == 1
    with pytest.raises(ValueError, match='"jit" or "error"'):
        cache.use_libraries(missing="perhaps")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kernel_sha256": "0" * 64}, "compiled from another kernel.py"),
        ({"abi": 99}, "written for another loader"),
    ],
)
def test_libraries_of_another_kernel_or_loader_are_not_used(compiled, tilelang, tmp_path, changes, said):
    write_manifest(tmp_path, **changes)
    cache = compiled.KernelCache(build)
    with pytest.warns(UserWarning, match=said):
        cache.get(**KEY)
    assert len(tilelang.compiled) == 1
    cache.use_libraries(missing="error")
    with pytest.raises(compiled.LibraryError, match=said):
        cache.get(**KEY)


@pytest.mark.parametrize("content", [None, b"cut"])
def test_a_missing_or_damaged_library_is_never_loaded(compiled, tilelang, tmp_path, content):
    entry = {"key": KEY, "file": "x.so", "sha256": hashlib.sha256(b"whole").hexdigest(), "parameters": []}
    aot = write_manifest(tmp_path, [entry])
    if content is not None:
        (aot / "x.so").write_bytes(content)
    cache = compiled.KernelCache(build)
    cache.use_libraries(missing="error")
    with pytest.raises(compiled.LibraryError, match="is missing" if content is None else "not what its manifest says"):
        cache.get(**KEY)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"abi": 1', '{"abi": 1}', '{"abi": 1, "kernel_sha256": "K", "libraries": [3]}']
)
def test_a_manifest_that_was_cut_is_no_traceback_of_json(compiled, tilelang, tmp_path, text):
    aot = write_manifest(tmp_path)
    kernel_sha256 = json.loads((aot / "manifest.json").read_text())["kernel_sha256"]
    (aot / "manifest.json").write_text(text.replace('"K"', f'"{kernel_sha256}"'))
    cache = compiled.KernelCache(build)
    assert not cache.has_library(KEY)
    with pytest.warns(UserWarning, match=r"manifest.json cannot be read .*run `tilegen build --aot` again"):
        cache.get(**KEY)
    assert len(tilelang.compiled) == 1
    cache.use_libraries(missing="error")
    with pytest.raises(compiled.LibraryError, match="cannot be read"):
        cache.get(**KEY)


def test_a_single_file_says_that_libraries_go_with_a_folder(compiled, tilelang, tmp_path):
    aot = write_manifest(tmp_path)
    (tmp_path / "kernel.py").unlink()
    cache = compiled.KernelCache(build)
    cache.use_libraries(aot, missing="error")
    with pytest.raises(
        compiled.LibraryError, match=r"aot goes with a kernel\.py, and there is none beside _compiled\.py"
    ):
        cache.get(**KEY)


WHOLE = {"key": KEY, "file": "x.so", "sha256": "", "parameters": [["x", "pointer", "CUdeviceptr", -1, -1]]}


@pytest.mark.parametrize(
    "entry",
    [
        {name: value for name, value in WHOLE.items() if name != "file"},
        {name: value for name, value in WHOLE.items() if name != "sha256"},
        {**WHOLE, "file": None},
        {**WHOLE, "parameters": [["x", "pointer"]]},
        {**WHOLE, "parameters": [["x", "pointer", "__int128", -1, -1]]},
    ],
    ids=["no-file", "no-hash", "null", "short-parameter", "unknown-type"],
)
def test_an_entry_of_another_version_is_refused_when_the_manifest_is_read(compiled, tilelang, tmp_path, entry):
    write_manifest(tmp_path, [entry])
    cache = compiled.KernelCache(build)
    cache.use_libraries(missing="error")
    with pytest.raises(compiled.LibraryError, match=r"manifest.json cannot be read .*run `tilegen build --aot` again"):
        cache.get(**KEY)


def test_a_folder_without_libraries_is_refused_when_it_is_named(compiled, tilelang, tmp_path):
    cache = compiled.KernelCache(build)
    with pytest.raises(compiled.LibraryError, match=r"nowhere holds no manifest\.json: give a folder aot/"):
        cache.use_libraries(tmp_path / "nowhere")
    cache.use_libraries(write_manifest(tmp_path))


@pytest.mark.parametrize("library", ["no ELF file", "another"])
def test_a_library_that_is_none_of_a_kernel_is_refused(compiled, tilelang, tmp_path, library):
    """Whole by its hash, but of another machine, or without the launcher's functions."""
    aot = write_manifest(tmp_path)
    built = aot / "x.so"
    if library == "another":
        shutil.copy(_ctypes.__file__, built)
    else:
        built.write_bytes(b"of another machine")
    digest = hashlib.sha256(built.read_bytes()).hexdigest()
    write_manifest(tmp_path, [{"key": KEY, "file": "x.so", "sha256": digest, "parameters": []}])
    cache = compiled.KernelCache(build)
    cache.use_libraries(missing="error")
    with pytest.raises(compiled.LibraryError, match=r"x\.so cannot be loaded"):
        cache.get(**KEY)


def test_warming_up_compiles_only_what_has_no_library(compiled, support, tilelang, tmp_path):
    entry = {"key": KEY, "file": "x.so", "sha256": "", "parameters": []}
    write_manifest(tmp_path, [entry])
    cache = compiled.KernelCache(build)
    assert cache.has_library(KEY)
    assert not cache.has_library({**KEY, "C": 128})


def test_tensors_and_scalars_reach_a_compiled_kernel_in_the_order_of_its_arguments(compiled):
    torch = pytest.importorskip("torch")
    calls = []
    kernel = compiled.Jitted(lambda *arguments: calls.append(arguments))
    launch = kernel.bind(torch.device("cpu"), ((6, 4), None, (4,)))
    x, w = torch.zeros(2, 3, 4), torch.zeros(4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        launch((x, w), 0.5, 7)
    (first, half, second, last) = calls[0]
    assert (first.shape, half, second.shape, last) == ((6, 4), 0.5, (4,), 7)
    assert first.data_ptr() == x.data_ptr()
    with pytest.raises(ValueError, match="not a multiple of 16 bytes"):
        launch((torch.zeros(25)[1:].view(6, 4), w), 0.5, 7)
