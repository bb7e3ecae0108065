"""The public functions of gemm_relu: checks, dispatch and the torch custom op. The kernel itself is in kernel.py."""

import torch

from . import _compiled, _launching, _runtime, kernel

_DTYPES = {torch.float16: "float16", torch.bfloat16: "bfloat16"}
_kernels = _compiled.KernelCache(kernel.build)
_workspaces = _launching.Workspaces()


def gemm_relu(a, b, *, out=None):
    """c = relu(acc), with acc = a @ b accumulated in float32.

    a: (..., K); leading axes are flattened to M, float16 or bfloat16
    b: (K, N), float16 or bfloat16
    out: (..., N), float16 or bfloat16, where to write c; allocated if None.
    Returns c, whose gradient comes from plain torch. All tensors are contiguous, on one GPU of sm_90a, sm_80.

    Raises TypeError for a wrong dtype; ValueError for a wrong shape, stride or device, or a size outside the declared
    domain; RuntimeError for another GPU, or where autograd would have to follow `out`.
    """
    if torch.compiler.is_compiling():
        return _dispatch(a, b, out)
    return _launch(a, b, out)


def _prepare(a, b, out):
    """Checks the arguments, compiles if need be, and returns the launch for arguments like these."""
    _runtime.check_tensor("gemm_relu", "a", a, (..., None), _DTYPES)
    arch = _runtime.check_arch("gemm_relu", a.device, kernel.ARCHES)
    rows = a.shape[:-1]
    M, K = _runtime.rows_of(a), a.shape[-1]
    _runtime.check_tensor("gemm_relu", "b", b, (K, None), (a.dtype,), a.device)
    N = b.shape[1]
    if out is not None:
        _runtime.check_tensor("gemm_relu", "out", out, (*rows, N), (a.dtype,), a.device)
    _runtime.check_declared("gemm_relu", kernel.DOMAIN, N=N, K=K)
    if M == 0:
        return lambda *arguments: _runtime.given_or_empty(arguments[-1], a, (*rows, N), a.dtype)
    _runtime.check_declared("gemm_relu", kernel.DOMAIN, M=M)
    sm_count = _runtime.sm_count_of(a.device.index)
    tiles = kernel.tiles(arch, M, N, K, sm_count)
    grid = () if tiles["schedule"] == "plain" else (kernel.blocks(M, N, sm_count, **tiles),)
    layout = _layout(*grid, **tiles)
    compiled = _kernels.get(arch=arch, dtype=_DTYPES[a.dtype], N=N, K=K, **tiles)
    run = compiled.bind(a.device, ((M, K), (K, N), (M, N), *(shape for shape, _ in layout)))
    shape = (*rows, N)

    def launch(a, b, out):
        if out is None:
            out = a.new_empty(shape)
        scratch = _workspaces.get(a.device, layout) if layout else ()
        run((a, b, out, *scratch), *grid)
        return out

    return launch


def _layout(blocks=None, **tiles):
    """Shape and dtype of each scratch tensor: the parts of a sum, and a counter for each block that may begin one."""
    shape = None if blocks is None else kernel.workspace(blocks, **tiles)
    pieces = () if shape is None else ((shape, torch.float32), ((shape[0] // 2,), torch.int32))
    return _launching.Layout(pieces)


def _dispatch(a, b, out):
    """The call as torch sees it, for autograd and tracers."""
    if out is None:
        return _op(a, b)
    message = "gemm_relu: autograd cannot follow a result that is written to out; leave it away"
    _launching.check_no_grad(message, (a, b, out))
    _op_out(a, b, out)
    return out


def _signature(a, b, out):
    """What decides how a call is launched; None where autograd takes part."""
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        return None
    return (
        type(a),
        a.shape,
        a.dtype,
        a.get_device(),
        a.is_contiguous(),
        type(b),
        b.shape,
        b.dtype,
        b.get_device(),
        b.is_contiguous(),
        out if out is None else _launching.described(out),
    )


_launch = _launching.Launcher(_prepare, _dispatch, _signature)


def _fake(a, b):
    return a.new_empty((*a.shape[:-1], b.shape[1]), dtype=a.dtype)


def _backward(ctx, grad):
    from .dispatch import gemm_relu_eager

    return _launching.differentiate(gemm_relu_eager, ctx, grad)


@_launching.custom_op("tilegen_39c94e07bcb8::gemm_relu", _fake, _backward)
def _op(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _launch.direct(a, b, None)


@_launching.custom_op("tilegen_39c94e07bcb8::gemm_relu_out", lambda *arguments: None, mutates_args=("out",))
def _op_out(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
    _launch.direct(a, b, out)


def gemm_relu_kernel_source(M, N, K, dtype="float16", arch=None):
    """The CUDA source that TileLang makes for this shape. Needs no GPU if `arch` is given."""
    arch, sm_count = _runtime.chip_of("gemm_relu_kernel_source", kernel.SM_COUNT, arch)
    _runtime.check_choice("gemm_relu_kernel_source", "dtype", dtype, kernel.DTYPES)
    _runtime.check_declared("gemm_relu_kernel_source", kernel.DOMAIN, M=M, N=N, K=K)
    tiles = kernel.tiles(arch, M, N, K, sm_count)
    return _runtime.kernel_source(kernel.build(arch, dtype, N, K, **tiles), arch)


def gemm_relu_latency(M, N, K, dtype="float16"):
    """Median time of one call in milliseconds on the current GPU, with random inputs and a cold L2 cache."""
    from .reference import random_inputs

    _runtime.current_gpu("gemm_relu_latency")
    _runtime.check_choice("gemm_relu_latency", "dtype", dtype, kernel.DTYPES)
    inputs = random_inputs(M, N, K, getattr(torch, dtype), device="cuda")
    return _runtime.latency_ms(lambda: gemm_relu(*inputs))


def warm_up(jobs=1, **dims):
    """Makes every kernel of the listed dims ready for the current GPU ahead of its first call; returns how many.

    `dims` gives the sizes of some dims instead of the listed ones. With `jobs` above 1 as many processes compile.
    """
    arch, sm_count = _runtime.current_chip("gemm_relu: warm_up", kernel.ARCHES)
    _runtime.check_sizes("gemm_relu: warm_up", kernel.DOMAIN, dims)
    keys = kernel.compile_keys(arch, sm_count, **dims)
    return _runtime.warm_up(_kernels, keys, jobs)


def use_libraries(folder=None, *, missing="jit"):
    """Takes kernels compiled ahead from `folder`; from aot/ beside this file if None, as is done unasked.

    A kernel that is not there is compiled by TileLang (`missing="jit"`), or an error (`missing="error"`). So is a
    `folder` without a manifest.
    """
    _kernels.use_libraries(folder, missing)
    _launch.forget()
