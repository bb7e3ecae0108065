"""The public functions of rms_silu: checks, dispatch and the torch custom op. The kernel itself is in kernel.py."""

import torch

from . import _compiled, _launching, _runtime, kernel

_DTYPES = {torch.float16: "float16", torch.bfloat16: "bfloat16"}
_kernels = _compiled.KernelCache(kernel.build)


def rms_silu(x, gamma, *, out=None):
    """y = silu(x * rstd * gamma), with the rms statistics of each row in float32, eps = 1e-05.

    x: (..., C), float16 or bfloat16; leading axes are flattened to M
    gamma: (C,), float16 or bfloat16
    out: (..., C), float16 or bfloat16, where to write y; allocated if None. It may be x itself.
    Returns y, whose gradient comes from plain torch. All tensors are contiguous, on one GPU of sm_90a, sm_80.

    Raises TypeError for a wrong dtype; ValueError for a wrong shape, stride or device, or a width outside the declared
    domain; RuntimeError for another GPU, or where autograd would have to follow `out`.
    """
    if torch.compiler.is_compiling():
        return _dispatch(x, gamma, out)
    return _launch(x, gamma, out)


def _prepare(x, gamma, out):
    """Checks the arguments, compiles if need be, and returns the launch for arguments like these."""
    _runtime.check_tensor("rms_silu", "x", x, (..., None), _DTYPES)
    arch = _runtime.check_arch("rms_silu", x.device, kernel.ARCHES)
    M, C = _runtime.rows_of(x), x.shape[-1]
    _runtime.check_tensor("rms_silu", "gamma", gamma, (C,), (x.dtype,), x.device)
    if out is not None:
        _runtime.check_tensor("rms_silu", "out", out, x.shape, (x.dtype,), x.device)
    _runtime.check_declared("rms_silu", kernel.DOMAIN, C=C)
    if M == 0:
        return lambda x, gamma, out: torch.empty_like(x, dtype=x.dtype) if out is None else out
    _runtime.check_declared("rms_silu", kernel.DOMAIN, M=M)
    tiles = kernel.tiles(arch, M, C, _runtime.sm_count_of(x.device.index))
    compiled = _kernels.get(arch=arch, dtype=_DTYPES[x.dtype], C=C, **tiles)
    run = compiled.bind(x.device, ((M, C), (C,), (M, C)))

    def launch(x, gamma, out):
        if out is None:
            out = torch.empty_like(x)
        run((x, gamma, out))
        return out

    return launch


def _dispatch(x, gamma, out):
    """The call as torch sees it, for autograd and tracers."""
    if out is None:
        return _op(x, gamma)
    message = "rms_silu: autograd cannot follow a result that is written to out; leave it away"
    _launching.check_no_grad(message, (x, gamma, out))
    _op_out(x, gamma, out)
    return out


def _signature(x, gamma, out):
    """What decides how a call is launched; None where autograd takes part."""
    if torch.is_grad_enabled() and (x.requires_grad or gamma.requires_grad):
        return None
    return (
        type(x),
        x.shape,
        x.dtype,
        x.get_device(),
        x.is_contiguous(),
        type(gamma),
        gamma.shape,
        gamma.dtype,
        gamma.get_device(),
        gamma.is_contiguous(),
        out if out is None else _launching.described(out),
    )


_launch = _launching.Launcher(_prepare, _dispatch, _signature)


def _fake(x, gamma):
    return torch.empty_like(x, dtype=x.dtype)


def _backward(ctx, grad):
    from .dispatch import rms_silu_eager

    return _launching.differentiate(rms_silu_eager, ctx, grad)


@_launching.custom_op("tilegen_3f41b019be31::rms_silu", _fake, _backward)
def _op(x: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
    return _launch.direct(x, gamma, None)


@_launching.custom_op("tilegen_3f41b019be31::rms_silu_out", lambda *arguments: None, mutates_args=("out",))
def _op_out(x: torch.Tensor, gamma: torch.Tensor, out: torch.Tensor) -> None:
    _launch.direct(x, gamma, out)


def rms_silu_kernel_source(M, C, dtype="float16", arch=None):
    """The CUDA source that TileLang makes for this shape. Needs no GPU if `arch` is given."""
    arch, sm_count = _runtime.chip_of("rms_silu_kernel_source", kernel.SM_COUNT, arch)
    _runtime.check_choice("rms_silu_kernel_source", "dtype", dtype, kernel.DTYPES)
    _runtime.check_declared("rms_silu_kernel_source", kernel.DOMAIN, M=M, C=C)
    tiles = kernel.tiles(arch, M, C, sm_count)
    return _runtime.kernel_source(kernel.build(arch, dtype, C, **tiles), arch)


def rms_silu_latency(M, C, dtype="float16"):
    """Median time of one call in milliseconds on the current GPU, with random inputs and a cold L2 cache."""
    from .reference import random_inputs

    _runtime.current_gpu("rms_silu_latency")
    _runtime.check_choice("rms_silu_latency", "dtype", dtype, kernel.DTYPES)
    inputs = random_inputs(M, C, getattr(torch, dtype), device="cuda")
    return _runtime.latency_ms(lambda: rms_silu(*inputs))


def warm_up(jobs=1, **dims):
    """Makes every kernel of the listed dims ready for the current GPU ahead of its first call; returns how many.

    `dims` gives the sizes of some dims instead of the listed ones. With `jobs` above 1 as many processes compile.
    """
    arch, sm_count = _runtime.current_chip("rms_silu: warm_up", kernel.ARCHES)
    _runtime.check_sizes("rms_silu: warm_up", kernel.DOMAIN, dims)
    keys = kernel.compile_keys(arch, sm_count, **dims)
    return _runtime.warm_up(_kernels, keys, jobs)


def use_libraries(folder=None, *, missing="jit"):
    """Takes kernels compiled ahead from `folder`; from aot/ beside this file if None, as is done unasked.

    A kernel that is not there is compiled by TileLang (`missing="jit"`), or an error (`missing="error"`). So is a
    `folder` without a manifest.
    """
    _kernels.use_libraries(folder, missing)
    _launch.forget()
