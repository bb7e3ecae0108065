"""Device random numbers: cuRAND's Philox4_32_10, TileLang's default.

The generator is counter-based (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): draw ``n`` of a sequence
is one of the four words that ten rounds make of the counter ``n div 4``, the sequence and the seed. Draws of a T.Parallel go to
threads that the interpreter does not know, so there a block must have one thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.expressions import intrinsic
from tilegen.interp.findings import Site, UnsupportedError
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import Code, as_scalar
from tilegen.interp.number_formats import Array
from tilegen.interp.steps import Signal, Step, operation
from tilegen.interp.threads import per_thread

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler

_GENERATOR = "curandStatePhilox4_32_10_t"
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox(counter: tuple[Array, Array, Array, Array], key: tuple[Array, Array]) -> tuple[Array, Array, Array, Array]:
    """Ten rounds of Philox4x32; all words are uint64 arrays that hold 32 bits."""
    x, y, z, w = counter
    left, right = key
    for _ in range(10):
        first, second = _MULTIPLIERS[0] * x, _MULTIPLIERS[1] * z
        x, y, z, w = (second >> _HALF) ^ y ^ left, second & _LOW, (first >> _HALF) ^ w ^ right, first & _LOW
        left, right = (left + _KEY_STEPS[0]) & _LOW, (right + _KEY_STEPS[1]) & _LOW
    return x, y, z, w


def words_at(seed: Array, sequence: Array, position: Array) -> Array:
    """Draw number ``position`` of each sequence, as 32 bits in a uint64."""
    seed, sequence, position = (
        np.asarray(part).astype(np.int64).view(np.uint64) for part in (seed, sequence, position)
    )
    block = position >> np.uint64(2)
    words = philox((block & _LOW, block >> _HALF, sequence & _LOW, sequence >> _HALF), (seed & _LOW, seed >> _HALF))
    number = position & np.uint64(3)
    result: Array = np.choose(number.astype(np.int64), [np.broadcast_to(word, number.shape) for word in words])
    return result


@operation("tl.rng_init")
def _start(compiler: Compiler, call: Any, site: Site) -> Step:
    """Every thread starts its sequence at an offset."""
    if str(call.args[3].value) != _GENERATOR:
        raise UnsupportedError(
            f"the generator {call.args[3].value} is not modelled: `{site.operation}`; {_GENERATOR} is"
        )
    parts = [compiler.expression(argument, site) for argument in call.args[:3]]
    slot, axes = compiler.generator_slot(), compiler.axes

    def run(frame: Frame) -> Signal | None:
        values = [per_thread(frame, part.run(frame), axes).reshape(frame.threads.size, -1)[:, 0] for part in parts]
        frame.environment[slot] = [np.array(value, dtype=np.int64) for value in values]
        return None

    return run


def _draw(compiler: Compiler, site: Site) -> Any:
    """The next word of each active lane."""
    slot, lanes = compiler.generator_slot(), compiler.active_lanes()

    def run(frame: Frame) -> Array:
        state = frame.environment[slot]
        if state is None:
            raise UnsupportedError(f"`{site.operation}` draws before T.rng_init")
        seed, sequence, position = state
        shape = lanes(frame)
        active = np.ones(shape, dtype=np.bool_) if frame.mask is None else np.broadcast_to(frame.mask, shape)
        if shape[0] != frame.threads.size:
            raise UnsupportedError(
                f"`{site.operation}` in a T.Parallel of several threads: which of them draws is not modelled"
            )
        drawn = active.reshape(frame.threads.size, -1)
        ranks = np.cumsum(drawn, axis=1) - 1
        places = position[:, None] + np.maximum(ranks, 0)
        position += drawn.sum(axis=1)
        words: Array = words_at(seed[:, None], sequence[:, None], places).reshape(shape)
        return words

    return run


@intrinsic("tl.rng_rand")
def _integer(compiler: Compiler, node: Any, site: Site) -> Code:
    draw = _draw(compiler, site)
    return Code(lambda frame: as_scalar(draw(frame).astype(np.int64)), "uint32")


@intrinsic("tl.rng_rand_float")
def _uniform(compiler: Compiler, node: Any, site: Site) -> Code:
    """A float32 in (0, 1]: the middle of the interval of its 32 bits."""
    if str(node.dtype) != "float32" or str(node.args[0].value) != "uniform":
        raise UnsupportedError(f"{node.dtype} numbers of a {node.args[0].value} distribution are not modelled")
    draw = _draw(compiler, site)
    step = np.float32(2.0**-32)
    return Code(lambda frame: as_scalar(draw(frame).astype(np.float32) * step + step / np.float32(2)), "float32")
