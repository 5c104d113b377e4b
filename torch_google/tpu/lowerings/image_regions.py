# SPDX-License-Identifier: Apache-2.0
"""torchvision's operators on image regions: nms, and pooling over boxes, with gradients.

They are lowered by name, so this module does not import torchvision. A box (an RoI) is a row of
five numbers: the image's index, x1, y1, x2 and y2. The number of samples or pixels in a bin may
depend on the boxes' values, so the bounds of the loops over them are computed on the device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from torch_google.tpu.lowerings.opmath import opmath
from torch_google.tpu.lowerings.table import lowering


@lowering("torchvision::nms", host_shape=True)
def nms(boxes: jax.Array, scores: jax.Array, iou_threshold: float) -> jax.Array:
    """Return the indices of the boxes to keep, by descending score."""
    if not scores.size:
        return jnp.zeros(0, jnp.int64)
    order, keep = _suppress(boxes, scores, iou_threshold)
    return order[keep]


@jax.jit
def _suppress(boxes: jax.Array, scores: jax.Array, threshold: Any) -> tuple[jax.Array, jax.Array]:
    order = jnp.argsort(scores, descending=True, stable=True)
    x1, y1, x2, y2 = opmath(boxes)[order].T
    areas = (x2 - x1) * (y2 - y1)
    position = jnp.arange(order.size)

    def visit(index: jax.Array, keep: jax.Array) -> jax.Array:
        width = jnp.minimum(x2[index], x2) - jnp.maximum(x1[index], x1)
        height = jnp.minimum(y2[index], y2) - jnp.maximum(y1[index], y1)
        common = jnp.maximum(width, 0) * jnp.maximum(height, 0)
        overlap = common / (areas[index] + areas - common)
        suppressed = keep[index] & (position > index) & (overlap > threshold)
        return keep & ~suppressed

    keep = jax.lax.fori_loop(0, order.size, visit, jnp.ones(order.shape, bool))
    return order.astype(jnp.int64), keep


@lowering("torchvision::roi_align")
def roi_align(
    x: jax.Array,
    rois: jax.Array,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> jax.Array:
    """Return the mean of the samples in each bin of each box: (boxes, C, bins)."""
    sampling = _sampling(rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)
    return _sampled(x, sampling, _every_channel(x))


@lowering("torchvision::_roi_align_backward")
def roi_align_backward(
    grad: jax.Array,
    rois: jax.Array,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
    sampling_ratio: int,
    aligned: bool,
) -> jax.Array:
    sampling = _sampling(rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)
    x = jnp.zeros((batch_size, channels, height, width), opmath(grad).dtype)
    return _spread(x, sampling, _every_channel(x), grad)


@lowering("torchvision::ps_roi_align")
def ps_roi_align(
    x: jax.Array,
    rois: jax.Array,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
) -> tuple[jax.Array, jax.Array]:
    """Compute roi_align with separate input channels for each bin. Also return these channels."""
    channels = _own_channels(x.shape[1], pooled_height, pooled_width)
    sampling = _sampling(rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, None)
    return _sampled(x, sampling, channels), _mapping(rois, channels)


@lowering("torchvision::_ps_roi_align_backward")
def ps_roi_align_backward(
    grad: jax.Array,
    rois: jax.Array,
    channel_mapping: jax.Array,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
) -> jax.Array:
    sampling = _sampling(rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, None)
    x = jnp.zeros((batch_size, channels, height, width), opmath(grad).dtype)
    return _spread(x, sampling, _own_channels(channels, pooled_height, pooled_width), grad)


@lowering("torchvision::roi_pool")
def roi_pool(
    x: jax.Array, rois: jax.Array, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[jax.Array, jax.Array]:
    """Return the maximum of each bin, and its index in the image, which is -1 for an empty bin."""
    height, width = x.shape[2:]
    rows, columns = _windows(rois, spatial_scale, pooled_height, pooled_width, height, width, 1)
    pixels = _pixels(x, rois, _every_channel(x))
    lowest = jnp.finfo(x.dtype).min
    empty = _within(rows, columns, 0, 0)[..., None]
    shape = (*empty.shape[:-1], x.shape[1])

    def visit(row: jax.Array, column: jax.Array, best: tuple[Any, Any]) -> tuple[Any, Any]:
        index = (rows.start + row) * width + columns.start + column
        inside = _within(rows, columns, row, column)[..., None]
        value = pixels(rows.start + row, columns.start + column)
        larger = inside & (value > best[0])
        return jnp.where(larger, value, best[0]), jnp.where(larger, index[..., None], best[1])

    start = jnp.full(shape, lowest, x.dtype), jnp.full(shape, -1, jnp.int32)
    value, index = _over_windows(rows, columns, visit, start)
    return _channels_first(jnp.where(empty, value, 0)), _channels_first(index)


@lowering("torchvision::_roi_pool_backward")
def roi_pool_backward(
    grad: jax.Array,
    rois: jax.Array,
    argmax: jax.Array,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
) -> jax.Array:
    del spatial_scale, pooled_height, pooled_width
    batch = _batch(rois)[:, None, None, None]
    channel = jnp.arange(channels)[None, :, None, None]
    flat = jnp.zeros((batch_size, channels, height * width), opmath(grad).dtype)
    # Negative indices would count from the end. Give empty bins an index past the end, so that
    # their writes are dropped.
    index = jnp.where(argmax < 0, height * width, argmax)
    flat = flat.at[batch, channel, index].add(opmath(grad), mode="drop")
    return flat.reshape(batch_size, channels, height, width)


@lowering("torchvision::ps_roi_pool")
def ps_roi_pool(
    x: jax.Array, rois: jax.Array, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[jax.Array, jax.Array]:
    """Return the mean of each bin over its own input channels, and the indices of the channels."""
    channels = _own_channels(x.shape[1], pooled_height, pooled_width)
    # torchvision's forward pass omits the last row and column of an image; its gradient does not.
    height, width = (size - 1 for size in x.shape[2:])
    rows, columns = _windows(rois, spatial_scale, pooled_height, pooled_width, height, width, 0)
    pixels = _pixels(opmath(x), rois, channels)

    def visit(row: jax.Array, column: jax.Array, total: jax.Array) -> jax.Array:
        inside = _within(rows, columns, row, column)[..., None]
        value = pixels(rows.start + row, columns.start + column)
        return total + jnp.where(inside, value, 0)

    area = _area(rows, columns)
    start = jnp.zeros((*area.shape, channels.shape[-1]), opmath(x).dtype)
    total = _over_windows(rows, columns, visit, start)
    mean = total / jnp.maximum(area, 1)[..., None]
    return _channels_first(mean), _mapping(rois, channels)


@lowering("torchvision::_ps_roi_pool_backward")
def ps_roi_pool_backward(
    grad: jax.Array,
    rois: jax.Array,
    channel_mapping: jax.Array,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    batch_size: int,
    channels: int,
    height: int,
    width: int,
) -> jax.Array:
    own = _own_channels(channels, pooled_height, pooled_width)
    rows, columns = _windows(rois, spatial_scale, pooled_height, pooled_width, height, width, 0)
    share = jnp.moveaxis(opmath(grad), 1, -1) / jnp.maximum(_area(rows, columns), 1)[..., None]
    batch = _batch(rois)[:, None, None, None]

    def visit(row: jax.Array, column: jax.Array, x: jax.Array) -> jax.Array:
        inside = _within(rows, columns, row, column)[..., None]
        cell = (rows.start + row)[..., None], (columns.start + column)[..., None]
        return x.at[(batch, own, *cell)].add(jnp.where(inside, share, 0), mode="drop")

    start = jnp.zeros((batch_size, channels, height, width), share.dtype)
    return _over_windows(rows, columns, visit, start)


class _Sampling(NamedTuple):
    """The positions at which the bins are sampled. Arrays have the shape (boxes,) unless noted.

    `rows` and `columns` are the numbers of samples in a bin. The sum of a bin's samples is divided
    by `count`.
    """

    batch: jax.Array
    y_start: jax.Array  # (boxes, pooled_height)
    x_start: jax.Array  # (boxes, pooled_width)
    bin_height: jax.Array
    bin_width: jax.Array
    rows: jax.Array
    columns: jax.Array
    count: jax.Array

    def weights(self, row: jax.Array, column: jax.Array, height: int, width: int) -> _Corners:
        """Return the four pixels around each bin's sample, and their weights: (boxes, bins, 4)."""
        y = self.y_start + ((row + 0.5) * self.bin_height / self.rows)[:, None]
        x = self.x_start + ((column + 0.5) * self.bin_width / self.columns)[:, None]
        used = (row < self.rows) & (column < self.columns)
        y_low, y_high, y_share, y_inside = _neighbors(y, height)
        x_low, x_high, x_share, x_inside = _neighbors(x, width)
        inside = y_inside[:, :, None] & x_inside[:, None, :] & used[:, None, None]
        ys = jnp.stack([y_low, y_low, y_high, y_high], -1)[:, :, None]
        xs = jnp.stack([x_low, x_high, x_low, x_high], -1)[:, None]
        of_y = jnp.stack([1 - y_share, 1 - y_share, y_share, y_share], -1)[:, :, None]
        of_x = jnp.stack([1 - x_share, x_share, 1 - x_share, x_share], -1)[:, None]
        share = jnp.where(inside[..., None], of_y * of_x, 0)
        ys, xs = jnp.broadcast_to(ys, share.shape), jnp.broadcast_to(xs, share.shape)
        return _Corners(ys, xs, share)


class _Corners(NamedTuple):
    y: jax.Array
    x: jax.Array
    weight: jax.Array


def _sampling(
    rois: jax.Array,
    scale: float,
    pooled_height: int,
    pooled_width: int,
    ratio: int,
    aligned: bool | None,
) -> _Sampling:
    """Return the positions at which boxes are sampled. `aligned` is None for ps_roi_align."""
    wide = opmath(rois)
    x1, y1, x2, y2 = (wide[:, i] * scale - (0.0 if aligned is False else 0.5) for i in range(1, 5))
    roi_width, roi_height = x2 - x1, y2 - y1
    if aligned is False:
        roi_width, roi_height = jnp.maximum(roi_width, 1), jnp.maximum(roi_height, 1)
    bin_height, bin_width = _divided(roi_height, pooled_height), _divided(roi_width, pooled_width)
    rows = jnp.full(bin_height.shape, ratio) if ratio > 0 else jnp.ceil(bin_height).astype(int)
    columns = jnp.full(bin_width.shape, ratio) if ratio > 0 else jnp.ceil(bin_width).astype(int)
    count = rows * columns
    return _Sampling(
        _batch(rois),
        y1[:, None] + jnp.arange(pooled_height) * bin_height[:, None],
        x1[:, None] + jnp.arange(pooled_width) * bin_width[:, None],
        bin_height,
        bin_width,
        rows,
        columns,
        (count if aligned is None else jnp.maximum(count, 1)).astype(wide.dtype),
    )


def _neighbors(coordinate: jax.Array, size: int) -> tuple[jax.Array, ...]:
    """Return a coordinate's two neighbors, the second's weight, and whether it is in range."""
    inside = (coordinate >= -1.0) & (coordinate <= size)
    coordinate = jnp.maximum(coordinate, 0)
    low = jnp.where(inside, coordinate, 0).astype(jnp.int32)
    at_end = low >= size - 1
    low = jnp.where(at_end, size - 1, low)
    high = jnp.where(at_end, size - 1, low + 1)
    return low, high, jnp.where(at_end, 0, coordinate - low), inside


def _sampled(x: jax.Array, sampling: _Sampling, channels: jax.Array) -> jax.Array:
    """Return the mean of the samples in each bin: (boxes, channels, bins)."""
    height, width = x.shape[2:]
    batch = sampling.batch[:, None, None, None]
    last = jnp.moveaxis(opmath(x), 1, -1)

    def visit(row: jax.Array, column: jax.Array, total: jax.Array) -> jax.Array:
        corners = sampling.weights(row, column, height, width)
        for corner in range(4):
            y, x = corners.y[..., corner, None], corners.x[..., corner, None]
            total += last[batch, y, x, channels] * corners.weight[..., corner, None]
        return total

    bins = sampling.y_start.shape[1], sampling.x_start.shape[1]
    start = jnp.zeros((sampling.batch.size, *bins, channels.shape[-1]), last.dtype)
    total = _over(sampling.rows, sampling.columns, visit, start)
    return _channels_first(total / sampling.count[:, None, None, None])


def _spread(x: jax.Array, sampling: _Sampling, channels: jax.Array, grad: jax.Array) -> jax.Array:
    """Scatter-add the gradient of each bin into the pixels from which the bin was sampled."""
    height, width = x.shape[2:]
    batch = sampling.batch[:, None, None, None]
    # A box without samples changes no pixel, so any nonzero divisor will do.
    count = jnp.where(sampling.count == 0, 1, sampling.count)
    share = jnp.moveaxis(opmath(grad), 1, -1) / count[:, None, None, None]

    def visit(row: jax.Array, column: jax.Array, total: jax.Array) -> jax.Array:
        corners = sampling.weights(row, column, height, width)
        for corner in range(4):
            y, x = corners.y[..., corner, None], corners.x[..., corner, None]
            value = share * corners.weight[..., corner, None]
            total = total.at[batch, y, x, channels].add(value)
        return total

    return jnp.moveaxis(
        _over(sampling.rows, sampling.columns, visit, jnp.moveaxis(x, 1, -1)), -1, 1
    )


class _Window(NamedTuple):
    """The pixel range [start, end) of each bin along one axis. Broadcasts to (boxes, bins)."""

    start: jax.Array
    end: jax.Array


def _windows(
    rois: jax.Array,
    scale: float,
    pooled_height: int,
    pooled_width: int,
    height: int,
    width: int,
    inclusive: int,
) -> tuple[_Window, _Window]:
    """Return the rows and columns of each bin, clipped to `height` and `width`.

    If `inclusive` is 1, a box includes its last row and column.
    """
    wide = opmath(rois)
    x1, y1, x2, y2 = (_rounded(wide[:, i] * scale) for i in range(1, 5))

    def along(low: jax.Array, high: jax.Array, bins: int, size: int) -> _Window:
        extent = _divided(jnp.maximum(high - low + inclusive, 1), bins)[:, None]
        index = jnp.arange(bins)
        start = jnp.floor(index * extent) + low[:, None]
        end = jnp.ceil((index + 1) * extent) + low[:, None]
        return _Window(*(jnp.clip(edge, 0, size).astype(jnp.int32) for edge in (start, end)))

    rows, columns = along(y1, y2, pooled_height, height), along(x1, x2, pooled_width, width)
    return (
        _Window(*(edge[:, :, None] for edge in rows)),
        _Window(*(edge[:, None, :] for edge in columns)),
    )


def _divided(value: jax.Array, divisor: int) -> jax.Array:
    """Divide exactly, because the quotient decides which pixels belong to a bin.

    XLA would multiply by the reciprocal of a constant, so hide that the divisor is constant.
    """
    return value / jnp.where(jnp.isnan(value), jnp.nan, divisor).astype(value.dtype)


def _rounded(value: jax.Array) -> jax.Array:
    """Round halves away from zero, as C++ does."""
    return jnp.sign(value) * jnp.floor(jnp.abs(value) + 0.5)


def _within(rows: _Window, columns: _Window, row: Any, column: Any) -> jax.Array:
    return (rows.start + row < rows.end) & (columns.start + column < columns.end)


def _area(rows: _Window, columns: _Window) -> jax.Array:
    sides = (jnp.maximum(window.end - window.start, 0) for window in (rows, columns))
    return next(sides) * next(sides)


def _pixels(
    x: jax.Array, rois: jax.Array, channels: jax.Array
) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """Return a function that maps a row and column per bin to pixels (boxes, bins, channels)."""
    last = jnp.moveaxis(x, 1, -1)
    batch = _batch(rois)[:, None, None, None]

    def pixels(y: jax.Array, x: jax.Array) -> jax.Array:
        return last.at[batch, y[..., None], x[..., None], channels].get(mode="clip")

    return pixels


def _over_windows(rows: _Window, columns: _Window, visit: Callable[..., Any], start: Any) -> Any:
    return _over(rows.end - rows.start, columns.end - columns.start, visit, start)


def _over(rows: jax.Array, columns: jax.Array, visit: Callable[..., Any], start: Any) -> Any:
    """Run `state = visit(row, column, state)` for each row < max(rows) and column < max(columns).

    Return the last state.
    """
    most_rows = jnp.max(rows, initial=0)
    most_columns = jnp.max(columns, initial=0)

    def over_columns(row: jax.Array, state: Any) -> Any:
        return jax.lax.fori_loop(0, most_columns, partial(visit, row), state)

    return jax.lax.fori_loop(0, most_rows, over_columns, start)


def _batch(rois: jax.Array) -> jax.Array:
    return rois[:, 0].astype(jnp.int32)


def _every_channel(x: jax.Array) -> jax.Array:
    """Return each bin's input channels, (1, 1, 1, C), for operators whose bins use all channels."""
    return jnp.arange(x.shape[1]).reshape(1, 1, 1, -1)


def _own_channels(channels: int, pooled_height: int, pooled_width: int) -> jax.Array:
    """Return each bin's input channels, (1, bins, C), for operators whose bins share no channel."""
    bins = pooled_height, pooled_width
    each = jnp.arange(channels).reshape(-1, *bins)
    return jnp.moveaxis(each, 0, -1)[None]


def _mapping(rois: jax.Array, channels: jax.Array) -> jax.Array:
    first = _channels_first(channels).astype(jnp.int32)
    return jnp.broadcast_to(first, (rois.shape[0], *first.shape[1:]))


def _channels_first(value: jax.Array) -> jax.Array:
    return jnp.moveaxis(value, -1, 1)
