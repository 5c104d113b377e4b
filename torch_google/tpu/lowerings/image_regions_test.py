# SPDX-License-Identifier: Apache-2.0
"""torchvision's operators match definitions in plain torch that visit one bin or pixel at a time.

This file defines the operators, so that the device's tests do not compile torchvision's.
tests/ecosystem compares the lowerings with torchvision itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from torch_google.tpu.lowerings.against_cpu import check

_LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
for _schema in (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt"
    " pooled_width, int sampling_ratio, bool aligned) -> Tensor",
    "_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height,"
    " SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width, int"
    " sampling_ratio, bool aligned) -> Tensor",
    "roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt"
    " pooled_width) -> (Tensor, Tensor)",
    "_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, SymInt"
    " pooled_height, SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt"
    " width) -> Tensor",
    "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt"
    " pooled_width, int sampling_ratio) -> (Tensor, Tensor)",
    "_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale,"
    " SymInt pooled_height, SymInt pooled_width, int sampling_ratio, SymInt batch_size, SymInt"
    " channels, SymInt height, SymInt width) -> Tensor",
    "ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt"
    " pooled_width) -> (Tensor, Tensor)",
    "_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale,"
    " SymInt pooled_height, SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height,"
    " SymInt width) -> Tensor",
):
    _LIBRARY.define(_schema)
vision: Any = torch.ops.torchvision


@torch.library.register_fake("torchvision::nms", lib=_LIBRARY)
def _fake_nms(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    return boxes.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)


_BINS = (2, 3)
_ROIS = torch.tensor(
    [
        [0, 1.2, 0.4, 6.9, 5.0],
        [1, -2.0, -1.0, 3.3, 4.6],
        [1, 2.5, 2.5, 2.5, 2.5],  # one point
        [0, 3.0, 3.0, 1.0, 1.0],  # the corners are exchanged
        [0, 30.0, 30.0, 40.0, 40.0],  # outside
    ]
)
Results = tuple[torch.Tensor, ...]


def _images(channels: int = 6) -> torch.Tensor:
    return torch.randn(2, channels, 6, 7, generator=torch.Generator().manual_seed(3))


def _pixel(image: torch.Tensor, y: float, x: float) -> torch.Tensor:
    """Interpolate an image (C, H, W). Points up to one pixel outside are moved to its border."""
    height, width = image.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return image[:, 0, 0] * 0
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    down, across = y - top, x - left
    upper = image[:, top, left] * (1 - across) + image[:, top, right] * across
    lower = image[:, bottom, left] * (1 - across) + image[:, bottom, right] * across
    return upper * (1 - down) + lower * down


def _box_bins() -> Iterator[tuple[int, int]]:
    return ((i, j) for i in range(_BINS[0]) for j in range(_BINS[1]))


def _own(x: torch.Tensor, i: int, j: int) -> torch.Tensor:
    """Return the images with only the channels that the bin in row i and column j pools."""
    return x[:, i * _BINS[1] + j :: math.prod(_BINS)]


def _pooled(x: torch.Tensor, bin_of: Callable[..., torch.Tensor], own: bool) -> torch.Tensor:
    """Return `bin_of(images, box, i, j)` for all bins, stacked: (boxes, C, bins)."""
    boxes = []
    for box in _ROIS.tolist():
        bins = [bin_of(_own(x, i, j) if own else x, box, i, j) for i, j in _box_bins()]
        boxes.append(torch.stack(bins, 1).reshape(-1, *_BINS))
    return torch.stack(boxes)


def _align(x: torch.Tensor, scale: float, ratio: int, aligned: bool, own: bool) -> torch.Tensor:
    def bin_of(images: torch.Tensor, box: list[float], i: int, j: int) -> torch.Tensor:
        left, top, right, bottom = (v * scale - (0.5 if aligned else 0) for v in box[1:])
        width, height = right - left, bottom - top
        if not aligned:
            width, height = max(width, 1.0), max(height, 1.0)
        high, wide = height / _BINS[0], width / _BINS[1]
        rows, columns = (ratio, ratio) if ratio > 0 else (math.ceil(high), math.ceil(wide))
        image = images[int(box[0])]
        total = image[:, 0, 0] * 0
        for row in range(rows):
            for column in range(columns):
                y = top + high * (i + (row + 0.5) / rows)
                total = total + _pixel(image, y, left + wide * (j + (column + 0.5) / columns))
        count = rows * columns
        if own:
            return total / torch.tensor(float(count))
        return total / max(count, 1)

    return _pooled(x, bin_of, own)


def _edges(low: float, high: float, bins: int, index: int, size: int, more: int) -> range:
    start = math.floor(abs(low) + 0.5) * (1 if low >= 0 else -1)
    end = math.floor(abs(high) + 0.5) * (1 if high >= 0 else -1)
    extent = max(end - start + more, 1) / bins
    first, last = math.floor(index * extent) + start, math.ceil((index + 1) * extent) + start
    return range(min(max(first, 0), size), min(max(last, 0), size))


def _pool(x: torch.Tensor, scale: float, own: bool, less: int = 1) -> torch.Tensor:
    def bin_of(images: torch.Tensor, box: list[float], i: int, j: int) -> torch.Tensor:
        image = images[int(box[0])]
        left, top, right, bottom = (v * scale for v in box[1:])
        height, width = (size - (less if own else 0) for size in image.shape[1:])
        rows = _edges(top, bottom, _BINS[0], i, height, 0 if own else 1)
        columns = _edges(left, right, _BINS[1], j, width, 0 if own else 1)
        part = image[:, rows.start : rows.stop, columns.start : columns.stop].flatten(1)
        if not part.shape[1]:
            return image[:, 0, 0] * 0
        return part.mean(1) if own else part.amax(1)

    return _pooled(x, bin_of, own)


def _gradient(function: Callable[[torch.Tensor], torch.Tensor], channels: int = 6) -> Any:
    """Return random cotangents for a function's output, and the gradient that they produce."""
    x = _images(channels).requires_grad_()
    output = function(x)
    cotangent = torch.randn(output.shape, generator=torch.Generator().manual_seed(4))
    (gradient,) = torch.autograd.grad(output, x, cotangent)
    return cotangent, gradient


@pytest.mark.parametrize("ratio", [2, -1])
@pytest.mark.parametrize("aligned", [True, False])
def test_roi_align(ratio: int, aligned: bool) -> None:
    def expect(x: torch.Tensor, *_: Any) -> torch.Tensor:
        return _align(x, 0.8, ratio, aligned, own=False)

    options = (0.8, *_BINS, ratio, aligned)
    check(vision.roi_align.default, _images(), _ROIS, *options, expect=expect)
    cotangent, gradient = _gradient(expect)
    check(
        vision._roi_align_backward.default, cotangent, _ROIS, 0.8, *_BINS, *_images().shape, ratio,
        aligned, expect=lambda *_: gradient, rtol=1e-4, atol=1e-5,
    )  # fmt: skip


def test_ps_roi_align() -> None:
    def expect(x: torch.Tensor, *_: Any) -> Results:
        return _align(x, 0.8, 2, True, own=True), _mapping()

    check(
        vision.ps_roi_align.default, _images(12), _ROIS, 0.8, *_BINS, 2, expect=expect,
        rtol=1e-4, atol=1e-5,
    )  # fmt: skip
    cotangent, gradient = _gradient(lambda x: expect(x)[0], 12)
    check(
        vision._ps_roi_align_backward.default, cotangent, _ROIS, _mapping(), 0.8, *_BINS, 2,
        *_images(12).shape, expect=lambda *_: gradient, rtol=1e-4, atol=1e-5,
    )  # fmt: skip


def test_ps_roi_align_without_samples_is_nan() -> None:
    point = _ROIS[2:3]
    nothing = torch.full((1, 2, *_BINS), torch.nan)
    check(
        vision.ps_roi_align.default, _images(12), point, 0.8, *_BINS, -1, only=1,
        expect=lambda *_: (nothing, _mapping()[:1]),
    )  # fmt: skip


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_roi_pool(scale: float) -> None:
    def expect(x: torch.Tensor, *_: Any) -> Results:
        values = _pool(x, scale, own=False)
        return values, _indices(x, values)

    check(vision.roi_pool.default, _images(), _ROIS, scale, *_BINS, expect=expect)
    cotangent, gradient = _gradient(lambda x: expect(x)[0])
    indices = expect(_images())[1]
    check(
        vision._roi_pool_backward.default, cotangent, _ROIS, indices, scale, *_BINS,
        *_images().shape, expect=lambda *_: gradient, rtol=1e-4, atol=1e-5,
    )  # fmt: skip


@pytest.mark.parametrize("size", range(1, 12))
def test_a_bin_ends_at_the_end_of_its_box(size: int) -> None:
    image = torch.arange(12.0).expand(1, 1, 4, 12)  # the pixel after a box is larger than its own
    box = torch.tensor([[0.0, 0.0, 0.0, size - 1, 3.0]])
    largest = torch.tensor([math.ceil(size * (i + 1) / 3) - 1.0 for i in range(3)])
    check(
        vision.roi_pool.default, image, box, 1.0, 1, 3, only=1,
        expect=lambda *_: (largest.reshape(1, 1, 1, 3), None),
    )  # fmt: skip


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_ps_roi_pool(scale: float) -> None:
    def expect(x: torch.Tensor, *_: Any) -> Results:
        return _pool(x, scale, own=True), _mapping()

    check(vision.ps_roi_pool.default, _images(12), _ROIS, scale, *_BINS, expect=expect)
    # torchvision's gradient includes the last row and column, which its forward pass omits.
    cotangent, gradient = _gradient(lambda x: _pool(x, scale, own=True, less=0), 12)
    check(
        vision._ps_roi_pool_backward.default, cotangent, _ROIS, _mapping(), scale, *_BINS,
        *_images(12).shape, expect=lambda *_: gradient, rtol=1e-4, atol=1e-5,
    )  # fmt: skip


def _mapping() -> torch.Tensor:
    each = torch.arange(12, dtype=torch.int32).reshape(2, *_BINS)
    return each.expand(len(_ROIS), -1, -1, -1)


def _indices(x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return each value's index in its image, or -1 for the value 0 of an empty bin."""
    indices = torch.full(values.shape, -1, dtype=torch.int32)
    for box, channel, i, j in torch.cartesian_prod(*map(torch.arange, values.shape)).tolist():
        image = x[int(_ROIS[box, 0]), channel].flatten()
        places = (image == values[box, channel, i, j]).nonzero()
        if len(places):
            indices[box, channel, i, j] = places[0, 0]
    return indices


def _nms(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    kept: list[int] = []
    for index in torch.argsort(scores, descending=True, stable=True).tolist():
        if all(
            _overlap(boxes[index].tolist(), boxes[other].tolist()) <= threshold for other in kept
        ):
            kept.append(index)
    return torch.tensor(kept, dtype=torch.int64)


def _overlap(a: list[float], b: list[float]) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    common = max(width, 0) * max(height, 0)
    areas = ((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return common / (sum(areas) - common)


@pytest.mark.parametrize("count", [0, 1, 30])
@pytest.mark.parametrize("threshold", [0.2, 0.6])
def test_nms(count: int, threshold: float) -> None:
    generator = torch.Generator().manual_seed(count)
    corners = torch.rand(count, 2, generator=generator) * 10
    boxes = torch.cat([corners, corners + 1 + torch.rand(count, 2, generator=generator) * 6], 1)
    scores = (torch.rand(count, generator=generator) * 8).round()  # some are equal
    check(vision.nms.default, boxes, scores, threshold, expect=_nms)


def test_operators_of_another_library_run_on_the_device() -> None:
    boxes = torch.tensor([[0, 0, 4, 4], [0, 0, 4, 5], [6, 6, 8, 8]], dtype=torch.float32)
    scores = torch.tensor([0.2, 0.9, 0.5])
    kept = vision.nms(boxes.to("tpu"), scores.to("tpu"), 0.5)
    assert kept.device.type == "tpu"
    assert kept.tolist() == [1, 2]
    output = vision.roi_align(_images().to("tpu"), _ROIS.to("tpu"), 0.8, *_BINS, 2, True)
    torch.testing.assert_close(output.cpu(), _align(_images(), 0.8, 2, True, own=False))
    with torch.tpu.eager_mode("fused"):
        output = vision.roi_align(_images().to("tpu") * 2, _ROIS.to("tpu"), 0.8, *_BINS, 2, True)
        torch.testing.assert_close(output.cpu(), 2 * _align(_images(), 0.8, 2, True, own=False))
