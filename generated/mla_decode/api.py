"""The public functions of mla_decode: checks, dispatch and the torch custom op. The kernel itself is in kernel.py."""

import torch

from . import _compiled, _launching, _runtime, kernel

_DTYPES = {torch.float16: "float16", torch.bfloat16: "bfloat16"}
_kernels = _compiled.KernelCache(kernel.build)
_workspaces = _launching.Workspaces()


def mla_decode(q_nope, q_pe, kv, *, seq_lens=None, scale=None, num_split=None, out=None, return_lse=False):
    """MLA decode, one query a sequence: out = softmax(scale * (q_nope, q_pe) @ kv.T) @ kv[..., :D_nope].

    q_nope: (B, H, D_nope), float16 or bfloat16: queries, with the up-projection of the keys absorbed
    q_pe: (B, H, D_rope), as q_nope: their rotary part
    kv: (B, S, D_nope + D_rope), as q_nope: the cache, one latent head; key and value, then the rotary part of the key
    seq_lens: (B,), int32: keys of each sequence, from 0 to S, on the GPU and not checked; S for all if None.
        Rows of kv past a length may hold anything, NaN too.
    scale: factor of the scores, positive; (D_nope + D_rope) ** -0.5 if None. A model that absorbed its projections
        has its own: DeepSeek's is that of its 192-wide heads.
    num_split: blocks that share the keys of one sequence; chosen by the shape if None, and where schedule `delayed`
        gets lengths, for it cuts the whole batch evenly
    out: (B, H, D_nope), as q_nope, where to write the output; allocated if None.
    Returns out, or (out, lse) with return_lse: (B, H) float32, the natural logarithm of the sum of exp of the scores.
        A sequence without keys gives 0 and -inf.
    All tensors are contiguous, on one GPU of sm_90a, sm_80.

    Raises TypeError for a wrong dtype; ValueError for a wrong shape, stride or device, or a size outside the declared
    domain; RuntimeError where autograd would need a backward, or for another GPU.
    """
    if torch.compiler.is_compiling():
        return _dispatch(q_nope, q_pe, kv, seq_lens, scale, num_split, out, return_lse)
    return _launch(q_nope, q_pe, kv, seq_lens, scale, num_split, out, return_lse)


def _prepare(q_nope, q_pe, kv, seq_lens, scale, num_split, out, return_lse):
    """Checks the arguments, compiles if need be, and returns the launch for arguments like these."""
    _runtime.check_tensor("mla_decode", "q_nope", q_nope, (None, None, None), _DTYPES)
    arch = _runtime.check_arch("mla_decode", q_nope.device, kernel.ARCHES)
    device, dtype = q_nope.device, q_nope.dtype
    B, H, D_nope = q_nope.shape
    _runtime.check_tensor("mla_decode", "q_pe", q_pe, (B, H, None), (dtype,), device)
    D_rope = q_pe.shape[2]
    _runtime.check_tensor("mla_decode", "kv", kv, (B, None, D_nope + D_rope), (dtype,), device)
    S = kv.shape[1]
    if seq_lens is not None:
        _runtime.check_tensor("mla_decode", "seq_lens", seq_lens, (B,), (torch.int32,), device)
    if out is not None:
        _runtime.check_tensor("mla_decode", "out", out, (B, H, D_nope), (dtype,), device)
    if num_split is not None and (not isinstance(num_split, int) or num_split < 1):
        raise ValueError(f"mla_decode: num_split must be a positive integer or None, got {num_split!r}")
    if scale is not None and not isinstance(scale, (int, float)):
        raise TypeError(f"mla_decode: scale must be a number or None, got {type(scale).__name__}")
    _runtime.check_declared("mla_decode", kernel.DOMAIN, H=H, S=S, D_nope=D_nope, D_rope=D_rope)
    if B == 0:
        return lambda *arguments: _nothing(arguments[0], arguments[6], return_lse)
    _runtime.check_declared("mla_decode", kernel.DOMAIN, B=B)

    sm_count = _runtime.sm_count_of(device.index)
    tiles = kernel.tiles(arch, B, H, S, D_nope, D_rope, sm_count)
    by_rule = tiles.pop("num_split")
    shape = (num_split or by_rule, B, S, H, tiles["BLOCK_H"], tiles["BLOCK_N"], sm_count)
    starter = _STARTERS[tiles["schedule"]](shape, seq_lens is not None)
    key = dict(arch=arch, dtype=_DTYPES[dtype], H=H, D_nope=D_nope, D_rope=D_rope, **tiles, split=starter.split)
    run = _kernels.get(**key).bind(device, starter.shapes(D_nope, D_rope))
    lse_shape = (B, H)

    def launch(q_nope, q_pe, kv, seq_lens, scale, num_split, out, return_lse):
        if scale is None:
            scale = kernel.default_scale(D_nope, D_rope)
        elif not scale > 0:
            raise ValueError(f"mla_decode: scale must be positive, got {scale}")
        if out is None:
            out = torch.empty_like(q_nope)
        scratch = _workspaces.get(device, starter.layout)
        lse = q_nope.new_empty(lse_shape, dtype=torch.float32) if return_lse else scratch[0]
        starter.start(run, q_nope, q_pe, kv, seq_lens, out, lse, scratch, scale * kernel.LOG2_E)
        return (out, lse) if return_lse else out

    return launch


def _nothing(q_nope, out, return_lse):
    """The result for no sequences."""
    out = torch.empty_like(q_nope) if out is None else out
    return (out, q_nope.new_empty((0, q_nope.shape[1]), dtype=torch.float32)) if return_lse else out


class _Plain:
    """Calls the kernel of schedule `plain`, with the workspace that a split needs."""

    def __init__(self, shape, ragged):
        _, self.B, self.S, self.H, *_ = shape
        self.splits = kernel.split_count(*shape)
        self.split = self.splits > 1
        self.ragged = ragged

    def shapes(self, D_nope, D_rope):
        """Of the arguments of the kernel, None for one that is no tensor. Lays out the scratch memory too."""
        B, H = self.B, self.H
        slots = B * self.splits
        # What each split found, with its base-2 LSE.
        partials = (((slots, H, D_nope), torch.float32), ((slots, H), torch.float32)) if self.split else ()
        # An LSE that nobody asked for, and lengths that are not read where there are none.
        self.layout = _launching.Layout((((B, H), torch.float32), ((B,), torch.int32), *partials))
        tensors = ((B, H, D_nope), (B, H, D_rope), (B, self.S, D_nope + D_rope), (B,), (B, H, D_nope), (B, H))
        return (*tensors, None, None, *(shape for shape, _ in partials))

    def start(self, run, q_nope, q_pe, kv, seq_lens, out, lse, scratch, log2_scale):
        lengths = seq_lens if self.ragged else scratch[1]
        splits = (self.splits,) if self.split else ()
        run((q_nope, q_pe, kv, lengths, out, lse, *scratch[2:]), log2_scale, int(self.ragged), *splits)


class _Delayed:
    """Calls the kernel of schedule `delayed`: for whole sequences, or an even cut of the batch. Lengths are cut on the GPU."""

    def __init__(self, shape, ragged):
        _, self.B, self.S, self.H, BLOCK_H, BLOCK_N, sm_count = shape
        key_blocks = -(-self.S // BLOCK_N)
        self.chunk = kernel.part_size(*shape)
        self.parts = kernel.most_parts(self.H, BLOCK_H, sm_count) if ragged else -(-self.B * key_blocks // self.chunk)
        cut = self.chunk % key_blocks != 0
        self.split = "ragged" if ragged else "even" if cut else False
        self.sizes = (self.parts,) if ragged else (self.parts, self.chunk)

    def shapes(self, D_nope, D_rope):
        """Of the arguments of the kernel, None for one that is no tensor. Lays out the scratch memory too."""
        B, H = self.B, self.H
        queries, results = ((B, H, D_nope), (B, H, D_rope), (B, self.S, D_nope + D_rope)), ((B, H, D_nope), (B, H))
        lengths = ((B,),) if self.split == "ragged" else ()
        slots = 2 * self.parts
        # What each part found, with its base-2 LSE; and the division of a batch of lengths.
        partials = ((slots, H, D_nope), torch.float32), ((slots, H), torch.float32)
        division = ((B + 1,), torch.int32), ((self.parts + 1,), torch.int32)
        pieces = {False: (), "even": partials, "ragged": (*partials, *division)}[self.split]
        # In front an LSE that nobody asked for.
        self.layout = _launching.Layout((((B, H), torch.float32), *pieces))
        return (*queries, *lengths, *results, None, *(shape for shape, _ in pieces))

    def start(self, run, q_nope, q_pe, kv, seq_lens, out, lse, scratch, log2_scale):
        lengths = () if seq_lens is None else (seq_lens,)
        run((q_nope, q_pe, kv, *lengths, out, lse, *scratch[1:]), log2_scale, *self.sizes)


_STARTERS = {"plain": _Plain, "delayed": _Delayed}


def _dispatch(q_nope, q_pe, kv, seq_lens, scale, num_split, out, return_lse):
    """The call as torch sees it, for tracers."""
    message = "mla_decode: this kernel has no backward; call it under torch.no_grad() or on detached tensors"
    _launching.check_no_grad(message, (q_nope, q_pe, kv, out))
    if out is None:
        out, lse = _op(q_nope, q_pe, kv, seq_lens, scale, num_split)
    else:
        lse = _op_out(q_nope, q_pe, kv, seq_lens, scale, num_split, out)
    return (out, lse) if return_lse else out


def _signature(q_nope, q_pe, kv, seq_lens, scale, num_split, out, return_lse):
    """What decides how a call is launched; None where autograd takes part."""
    if torch.is_grad_enabled() and (q_nope.requires_grad or q_pe.requires_grad or kv.requires_grad):
        return None
    return (
        type(q_nope),
        q_nope.shape,
        q_nope.dtype,
        q_nope.get_device(),
        q_nope.is_contiguous(),
        type(q_pe),
        q_pe.shape,
        q_pe.dtype,
        q_pe.get_device(),
        q_pe.is_contiguous(),
        type(kv),
        kv.shape,
        kv.dtype,
        kv.get_device(),
        kv.is_contiguous(),
        seq_lens if seq_lens is None else _launching.described(seq_lens),
        out if out is None else _launching.described(out),
        type(scale),
        num_split,
        return_lse,
    )


_launch = _launching.Launcher(_prepare, _dispatch, _signature)


def _fake(q_nope, q_pe, kv, seq_lens, scale, num_split):
    return torch.empty_like(q_nope), _fake_lse(q_nope)


def _fake_lse(q_nope, *others):
    return q_nope.new_empty(q_nope.shape[:2], dtype=torch.float32)


@_launching.custom_op("tilegen_0650cef1bcb6::mla_decode", _fake)
def _op(
    q_nope: torch.Tensor,
    q_pe: torch.Tensor,
    kv: torch.Tensor,
    seq_lens: torch.Tensor | None,
    scale: float | None,
    num_split: int | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    return _launch.direct(q_nope, q_pe, kv, seq_lens, scale, num_split, None, True)


@_launching.custom_op("tilegen_0650cef1bcb6::mla_decode_out", _fake_lse, mutates_args=("out",))
def _op_out(
    q_nope: torch.Tensor,
    q_pe: torch.Tensor,
    kv: torch.Tensor,
    seq_lens: torch.Tensor | None,
    scale: float | None,
    num_split: int | None,
    out: torch.Tensor,
) -> torch.Tensor:
    return _launch.direct(q_nope, q_pe, kv, seq_lens, scale, num_split, out, True)[1]


def mla_decode_kernel_source(B, H, S, D_nope=512, D_rope=64, dtype="float16", ragged=False, arch=None):
    """The CUDA source that TileLang makes for this shape, with lengths if `ragged`. Needs no GPU if `arch` is given."""
    arch, sm_count = _runtime.chip_of("mla_decode_kernel_source", kernel.SM_COUNT, arch)
    _runtime.check_choice("mla_decode_kernel_source", "dtype", dtype, kernel.DTYPES)
    _runtime.check_declared("mla_decode_kernel_source", kernel.DOMAIN, B=B, H=H, S=S, D_nope=D_nope, D_rope=D_rope)
    tiles = kernel.tiles(arch, B, H, S, D_nope, D_rope, sm_count)
    by_rule = tiles.pop("num_split")
    starter = _STARTERS[tiles["schedule"]]((by_rule, B, S, H, tiles["BLOCK_H"], tiles["BLOCK_N"], sm_count), ragged)
    return _runtime.kernel_source(kernel.build(arch, dtype, H, D_nope, D_rope, **tiles, split=starter.split), arch)


def mla_decode_latency(B, H, S, D_nope=512, D_rope=64, dtype="float16"):
    """Median time of one call in milliseconds on the current GPU, with random inputs and a cold L2 cache."""
    from .reference import random_inputs

    _runtime.current_gpu("mla_decode_latency")
    _runtime.check_choice("mla_decode_latency", "dtype", dtype, kernel.DTYPES)
    inputs = random_inputs(B, H, S, D_nope, D_rope, getattr(torch, dtype), device="cuda")
    return _runtime.latency_ms(lambda: mla_decode(*inputs))


def warm_up(jobs=1, **dims):
    """Makes every kernel of the listed dims ready for the current GPU ahead of its first call; returns how many.

    `dims` gives the sizes of some dims instead of the listed ones. With `jobs` above 1 as many processes compile.
    """
    arch, sm_count = _runtime.current_chip("mla_decode: warm_up", kernel.ARCHES)
    _runtime.check_sizes("mla_decode: warm_up", kernel.DOMAIN, dims)
    keys = kernel.compile_keys(arch, sm_count, **dims)
    return _runtime.warm_up(_kernels, keys, jobs)


def use_libraries(folder=None, *, missing="jit"):
    """Takes kernels compiled ahead from `folder`; from aot/ beside this file if None, as is done unasked.

    A kernel that is not there is compiled by TileLang (`missing="jit"`), or an error (`missing="error"`). So is a
    `folder` without a manifest.
    """
    _kernels.use_libraries(folder, missing)
    _launch.forget()
