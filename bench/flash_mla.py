"""FlashMLA's dense decode kernel as a peer of mla_decode, as the wheel of vLLM ships it; from the root of this repository:

python -m tilegen bench mla_decode --suite bench/mla_decode.toml --against cublas,bench.flash_mla:decode

Its plan, the joined query and the pages of the cache are made once for each set of inputs, outside of what is timed.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import vllm._flashmla_C  # noqa: F401  registers the operator

PAGE = 64  # keys of a page of the cache

_prepared: dict[tuple[object, ...], Callable[[], torch.Tensor]] = {}


def decode(q_nope: torch.Tensor, q_pe: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
    """q_nope (B, H, 512), q_pe (B, H, 64), kv (B, S, 576) to (B, H, 512), all float16 or bfloat16 on one GPU."""
    key = (q_nope.data_ptr(), q_pe.data_ptr(), kv.data_ptr(), *q_nope.shape, kv.shape[1], kv.dtype)
    if key not in _prepared:
        _prepared.clear()
        _prepared[key] = _planned(q_nope, q_pe, kv)
    return _prepared[key]()


def _planned(q_nope: torch.Tensor, q_pe: torch.Tensor, kv: torch.Tensor) -> Callable[[], torch.Tensor]:
    batch, keys, width = kv.shape
    scale = width**-0.5
    query = torch.cat([q_nope, q_pe], dim=-1).unsqueeze(1)
    pages = torch.nn.functional.pad(kv, (0, 0, 0, -keys % PAGE)).view(-1, PAGE, 1, width)
    table = torch.arange(len(pages), device=kv.device, dtype=torch.int32).view(batch, -1)
    lengths = torch.full((batch,), keys, device=kv.device, dtype=torch.int32)
    run = torch.ops._flashmla_C.dense_decode_fwd
    arguments = (query, pages, q_nope.shape[-1], lengths, table, scale, False)
    _, _, plan, splits = run(*arguments, None, None, None)
    return lambda: run(*arguments, plan, splits, None)[0].squeeze(1)
