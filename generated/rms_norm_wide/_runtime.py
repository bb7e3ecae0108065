"""What every generated kernel needs at run time: which chip this is, checking tensors, and plain torch below an op.

This file is the same beside every kernel. It needs torch, and tilelang to compile.
"""

import functools
import importlib
import math
import threading
import warnings

import torch

ARCH_OF_CAPABILITY = {
    (8, 0): "sm_80",
    (8, 6): "sm_86",
    (8, 7): "sm_86",
    (8, 9): "sm_89",
    (9, 0): "sm_90a",
    (10, 0): "sm_100a",
    (12, 0): "sm_120a",
}


class UnsupportedDeviceError(RuntimeError):
    """There is no GPU, or it is not one that the kernel was proved for."""


_arches = {}


def arch_of(index):
    """The architecture of device ``index``, as TileLang names it: ``"sm_90a"``, ``"gfx942"`` ..."""
    # Not functools.cache: torch.compile traces the dispatcher, and warns of that.
    if index not in _arches:
        _arches[index] = _read_arch(index)
    return _arches[index]


def _read_arch(index):
    if torch.version.hip is not None:
        return torch.cuda.get_device_properties(index).gcnArchName.split(":")[0]
    capability = torch.cuda.get_device_capability(index)
    return ARCH_OF_CAPABILITY.get(capability, f"sm_{capability[0]}{capability[1]}")


@functools.cache
def sm_count_of(index):
    """How many multiprocessors device ``index`` has."""
    return torch.cuda.get_device_properties(index).multi_processor_count


def current_gpu(call):
    """The index of the current device, for the public function ``call`` that has no tensor to tell it by.

    Raises :class:`UnsupportedDeviceError` where torch has no GPU.
    """
    if torch.cuda.is_available():
        return torch.cuda.current_device()
    if torch.version.cuda is None and torch.version.hip is None:
        lacks = f"torch {torch.__version__} was built without CUDA; install a build of torch with CUDA"
    else:
        lacks = "torch finds none; see that `nvidia-smi` lists one and that CUDA_VISIBLE_DEVICES does not hide it"
    raise UnsupportedDeviceError(f"{call} needs a GPU, and {lacks}")


def current_chip(call, arches):
    """``(architecture, multiprocessors)`` of the current GPU. Raises :class:`UnsupportedDeviceError`."""
    index = current_gpu(call)
    return check_arch(call, torch.device("cuda", index), arches), sm_count_of(index)


def chip_of(call, sm_counts, arch=None):
    """The same of the chip to print a kernel for: ``arch``, which needs no GPU, or the current one.

    ``sm_counts`` holds the chips that the kernel was proved for.
    """
    if arch is None and not torch.cuda.is_available():
        chips = _either(sm_counts)
        raise UnsupportedDeviceError(f"{call}: there is no GPU to print for; say for which chip: arch={chips}")
    if arch is not None:
        check_choice(call, "arch", arch, sm_counts)
    if arch is None or (torch.cuda.is_available() and arch_of(torch.cuda.current_device()) == arch):
        return current_chip(call, sm_counts)
    return arch, sm_counts[arch]


def check_choice(call, name, value, choices):
    """Raises ValueError unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{call}: {name} must be {_either(choices)}, got {value!r}")


def _either(choices):
    return " or ".join(repr(choice) for choice in choices)


# What every call asks for; torch's public functions for it build objects around these.
current_device = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)
raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", lambda index: torch.cuda.current_stream(index).cuda_stream)


def tilelang_target(arch):
    """The target dictionary that ``tilelang.compile`` takes for ``arch``."""
    return {"kind": "hip", "mcpu": arch} if arch.startswith("gfx") else {"kind": "cuda", "arch": arch}


def check_tensor(op, name, tensor, shape, dtypes, device=None):
    """Raises unless ``tensor`` is a contiguous CUDA tensor with one of ``dtypes`` and of ``shape``.

    In ``shape`` None stands for any extent, and a leading ... for any axes.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{op}: `{name}` must be a torch.Tensor, got {type(tensor).__name__}")
    if not tensor.is_cuda:
        raise ValueError(f"{op}: `{name}` is on {tensor.device}; it must be on a GPU")
    if device is not None and tensor.device != device:
        raise ValueError(f"{op}: `{name}` is on {tensor.device}, but the first input is on {device}")
    if tensor.dtype not in dtypes:
        names = " or ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise TypeError(f"{op}: `{name}` has dtype {str(tensor.dtype).removeprefix('torch.')}, expected {names}")
    if not _fits(tensor.shape, shape):
        want = ", ".join({None: "*", ...: "..."}.get(extent, str(extent)) for extent in shape)
        raise ValueError(f"{op}: `{name}` has shape {tuple(tensor.shape)}, expected ({want})")
    if not tensor.is_contiguous():
        raise ValueError(
            f"{op}: `{name}` has strides {tensor.stride()}; the kernel reads it row by row, so it must be contiguous: "
            f"pass {name}.contiguous()"
        )


def _fits(got, want):
    if want and want[0] is ...:
        want = (None,) * (len(got) - len(want) + 1) + tuple(want[1:])
    return len(got) == len(want) and all(w in (None, g) for g, w in zip(got, want, strict=True))


def check_arch(op, device, arches):
    """The architecture of ``device``; raises :class:`UnsupportedDeviceError` unless it is one of ``arches``."""
    arch = arch_of(device.index)
    if arch not in arches:
        raise UnsupportedDeviceError(
            f"{op}: {torch.cuda.get_device_name(device)} is {arch}; the kernel was proved for {', '.join(arches)}. "
            f"Add [target.{arch}] to the spec and build again"
        )
    return arch


def check_declared(op, domain, **dims):
    """Raises unless every dim is in the domain: ``domain`` maps its name to a predicate and the same in words."""
    for name, value in dims.items():
        contains, words = domain[name]
        if not contains(value):
            raise ValueError(f"{op}: {name} = {value} is outside the domain that the tiling was proved for: {words}")


def check_sizes(call, domain, dims):
    """Raises unless ``dims`` maps dims of the domain to sizes within it."""
    for name, sizes in dims.items():
        if name not in domain:
            raise TypeError(f"{call}: there is no dim {name}; there are {', '.join(domain)}")
        if not isinstance(sizes, (list, tuple, range)):
            raise TypeError(f"{call}: {name} must be a list of sizes, got {sizes!r}")
        for size in sizes:
            check_declared(call, domain, **{name: size})


def kernel_source(prim_func, arch):
    """The CUDA (or HIP) source that TileLang makes of ``prim_func`` for ``arch``. Needs no GPU."""
    import tilelang
    from tilelang import tvm

    # tilelang.lower, unlike tilelang.compile, ignores what T.annotate_pass_configs wrote into the prim_func.
    config = dict(prim_func.attrs.get("tilelang_pass_configs", {}))
    with tvm.target.Target(tilelang_target(arch)) as target, tilelang.transform.PassContext(config=config):
        return tilelang.lower(prim_func, target=target).kernel_source


def latency_ms(call, warmup=10, repeat=50):
    """Median time of ``call()`` on the current stream in milliseconds, by CUDA events, with the L2 cache flushed."""
    flush = torch.empty(256 * 1024 * 1024, dtype=torch.int8, device="cuda")
    for _ in range(warmup):
        call()
    times = []
    for _ in range(repeat):
        flush.zero_()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[len(times) // 2]


def given_or_empty(out, like, shape, dtype):
    """``out``, or a new tensor of ``shape`` and ``dtype`` where ``like`` lies if it is None."""
    return like.new_empty(shape, dtype=dtype) if out is None else out


def rows_of(tensor):
    """How many rows a tensor has when every axis but the last is flattened."""
    return flattened(tensor)[0]


def flattened(tensor):
    """(rows, width) of a tensor when every axis but the last is flattened."""
    *rows, width = tensor.shape
    return math.prod(rows), width


def warm_up(cache, keys, jobs=1):
    """Compiles every key of ``keys``; with ``jobs`` above 1 in that many processes, which share TileLang's disk cache.

    Returns how many keys there were. After it no call of these shapes compiles.
    """
    keys = list(keys)
    missing = [key for key in keys if not cache.has_library(key)]
    if jobs > 1 and len(missing) > 1:
        import multiprocessing

        with multiprocessing.get_context("spawn").Pool(min(jobs, len(missing))) as pool:
            pool.starmap(_compile_one, [(cache.build, key) for key in missing], chunksize=1)
    for key in keys:
        cache.get(**key)
    return len(keys)


def _compile_one(build, key):
    import tilelang

    tilelang.compile(build(**key), target=tilelang_target(key["arch"]))


class Preferred:
    """A hand-tuned callable ``"module.sub:function"`` that serves the shapes where ``where(*dims)`` holds.

    It is imported at its first use, once. Where it cannot be, one warning says so, and the next path serves.
    ``words`` is the condition in words.
    """

    def __init__(self, name, where, words):
        self.name = name
        self.where = where
        self.words = words
        self.why = f"{name}, preferred where {words}"
        self.missing = None
        self.call = None
        self._lock = threading.Lock()

    def is_there(self):
        if self.call is None and self.missing is None:
            self._load()
        return self.call is not None

    def _load(self):
        module, _, attribute = self.name.partition(":")
        with self._lock:
            if self.call is not None or self.missing is not None:
                return
            try:
                found = getattr(importlib.import_module(module), attribute)
                if not callable(found):
                    raise TypeError(f"it is a {type(found).__name__}")
                self.call = found
            except Exception as error:  # whatever a broken installation raises, there is another path
                self.missing = f"{type(error).__name__}: {error}"
                message = f"{self.name} cannot be had ({self.missing}); shapes where {self.words} take the next path"
                warnings.warn(message, RuntimeWarning, stacklevel=5)


def explained(preferred, why, **dims):
    """``why``, with the shape, and with the hand-tuned paths that would have come first, had they been there."""
    shape = ", ".join(f"{name} = {value}" for name, value in dims.items())
    absent = [path for path in preferred if path.missing is not None and path.where(*dims.values())]
    notes = [f"; {path.why}, cannot be had ({path.missing})" for path in absent]
    return f"{why} ({shape})" + "".join(notes)
