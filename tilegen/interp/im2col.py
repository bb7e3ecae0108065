"""``T.im2col``: the operand of a convolution as a product, gathered from an image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilegen.interp.findings import Site, UnsupportedError
from tilegen.interp.frame import Frame
from tilegen.interp.lanes import as_scalar
from tilegen.interp.regions import Region, compile_region
from tilegen.interp.steps import Signal, Step, operation

if TYPE_CHECKING:
    from tilegen.interp.compiler import Compiler


@operation("tl.tileop.im2col")
def _im2col(compiler: Compiler, call: Any, site: Site) -> Step:
    """Rows are places of the output (image, row, column), columns are places of the kernel and channels, channels fastest.

    The image is (images, height, width, channels). What lies outside it, in its padding, is 0.
    """
    image, tile = compile_region(compiler, call.args[0], site), compile_region(compiler, call.args[1], site)
    row_step, column_step = (compiler.index_expression(argument, site) for argument in call.args[2:4])
    kernel, stride, dilation, padding = (int(argument.value) for argument in call.args[4:8])

    def run(frame: Frame) -> Signal | None:
        storage = image.storage(frame)
        _, height, width, channels = storage.data.shape
        rows, columns = _tile_shape(tile, frame)
        if channels % columns:
            raise UnsupportedError(
                f"`{site.operation}`: {channels} channels are no multiple of the {columns} of a tile"
            )
        out_height, out_width = (
            (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 for size in (height, width)
        )
        place = int(as_scalar(row_step.run(frame))) * rows + np.arange(rows)[:, None]
        taken = int(as_scalar(column_step.run(frame))) * columns + np.arange(columns)[None, :]
        index = (
            place // (out_height * out_width),
            place % (out_height * out_width) // out_width * stride + taken // (kernel * channels) * dilation - padding,
            place % out_width * stride + taken // channels % kernel * dilation - padding,
            taken % channels,
        )
        places = np.broadcast_arrays(*index)
        inside = taken < kernel * kernel * channels
        for part, extent in zip(places, storage.data.shape, strict=True):
            inside = inside & (part >= 0) & (part < extent)
        clipped = tuple(np.clip(part, 0, extent - 1) for part, extent in zip(places, storage.data.shape, strict=True))
        values = storage.gather(frame, site, clipped, inside)
        tile.write(frame, np.where(inside, values, storage.data.dtype.type(0)).reshape(tile.shape(frame)))
        return None

    return run


def _tile_shape(tile: Region, frame: Frame) -> tuple[int, int]:
    shape = tile.shape(frame)
    if len(shape) < 2 or any(extent != 1 for extent in shape[:-2]):
        raise UnsupportedError(f"`{tile.site.operation}` fills no matrix: its extents are {shape}")
    return shape[-2], shape[-1]
