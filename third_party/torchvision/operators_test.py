# SPDX-License-Identifier: Apache-2.0
"""In a PAR, the operators match reference code, and their gradients match finite differences.

The references visit one pixel at a time and share no code with the operators.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch
from torchvision import ops

Array: TypeAlias = Any  # NumPy has no types here

# Each row is an image's index, x1, y1, x2 and y2.
_ROIS = torch.tensor(
    [[0, 0.7, 0.4, 5.9, 4.3], [1, 1.2, 1.1, 4.3, 4.6], [1, 0.3, 2.2, 2.4, 3.9]], dtype=torch.float64
)
_BINS = (2, 3)
_EVERY_BIN = list(itertools.product(range(_BINS[0]), range(_BINS[1])))


def _images(channels: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, channels, 6, 8, generator=generator, dtype=torch.float64)


def _boxes(count: int, generator: torch.Generator) -> torch.Tensor:
    corners = torch.rand(count, 2, 2, generator=generator) * 20
    return torch.cat([corners.amin(1), corners.amax(1) + 1], dim=1)


def _sample(image: Array, y: float, x: float, *, border: bool) -> Array:
    """Interpolate an image (C, H, W) that is padded with zeros, or by its border if `border`."""
    height, width = image.shape[1:]
    if border:
        if not (-1 <= y <= height and -1 <= x <= width):
            return np.zeros(len(image))
        y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    total = np.zeros(len(image))
    top, left = math.floor(y), math.floor(x)
    for row, column in itertools.product((top, top + 1), (left, left + 1)):
        if 0 <= row < height and 0 <= column < width:
            total += image[:, row, column] * (1 - abs(y - row)) * (1 - abs(x - column))
    return total


def _own_channels(image: Array, i: int, j: int) -> Array:
    """Return the channels that only the bin in row i and column j pools."""
    return image[i * _BINS[1] + j :: math.prod(_BINS)]


def _pooled(images: torch.Tensor, value: Callable[..., Array], *, own: bool) -> torch.Tensor:
    """Return `value(image, box, i, j)` of all bins: (boxes, C, bins)."""
    rows = []
    for index, *box in _ROIS.tolist():
        image = images[int(index)].numpy()
        bins = [
            value(_own_channels(image, i, j) if own else image, box, i, j) for i, j in _EVERY_BIN
        ]
        rows.append(np.stack(bins, axis=1).reshape(-1, *_BINS))
    return torch.from_numpy(np.stack(rows))


def _mean_of_samples(scale: float, ratio: int, *, aligned: bool) -> Callable[..., Array]:
    def value(image: Array, box: list[float], i: int, j: int) -> Array:
        left, top, right, bottom = (edge * scale - 0.5 * aligned for edge in box)
        least = 0.0 if aligned else 1.0
        high = max(bottom - top, least) / _BINS[0]
        wide = max(right - left, least) / _BINS[1]
        count = ratio if ratio > 0 else math.ceil(high)
        across = ratio if ratio > 0 else math.ceil(wide)
        samples = [
            _sample(
                image,
                top + high * (i + (row + 0.5) / count),
                left + wide * (j + (column + 0.5) / across),
                border=True,
            )
            for row in range(count)
            for column in range(across)
        ]
        return np.mean(samples, axis=0)

    return value


def _pixels_of_bin(image: Array, box: list[float], i: int, j: int, more: int) -> Array:
    """Return the pixels of a bin, (C, pixels), of a box that is rounded to whole pixels."""
    ranges = []
    for low, high, bins, index, size in (
        (box[1], box[3], _BINS[0], i, image.shape[1]),
        (box[0], box[2], _BINS[1], j, image.shape[2]),
    ):
        start = math.floor(low + 0.5)
        extent = max(math.floor(high + 0.5) - start + more, 1) / bins
        first = start + math.floor(index * extent)
        last = start + math.ceil((index + 1) * extent)
        ranges.append(slice(min(max(first, 0), size), min(max(last, 0), size)))
    return image[:, ranges[0], ranges[1]].reshape(len(image), -1)


def _check(operator: Callable[..., torch.Tensor], channels: int, expected: torch.Tensor) -> None:
    images = _images(channels).requires_grad_()
    torch.testing.assert_close(operator(images, _ROIS), expected)
    assert torch.autograd.gradcheck(lambda x: operator(x, _ROIS), (images,), atol=1e-6)


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("ratio", [2, -1])
def test_roi_align(ratio: int, aligned: bool) -> None:
    expected = _pooled(_images(2), _mean_of_samples(0.8, ratio, aligned=aligned), own=False)
    _check(ops.RoIAlign(_BINS, 0.8, ratio, aligned=aligned), 2, expected)


def test_ps_roi_align() -> None:
    expected = _pooled(_images(12), _mean_of_samples(0.8, 2, aligned=True), own=True)
    _check(ops.PSRoIAlign(_BINS, 0.8, 2), 12, expected)


def test_roi_pool() -> None:
    def largest(image: Array, box: list[float], i: int, j: int) -> Array:
        return _pixels_of_bin(image, box, i, j, more=1).max(axis=1)

    _check(ops.RoIPool(_BINS, 1.0), 2, _pooled(_images(2), largest, own=False))


def test_ps_roi_pool() -> None:
    def mean(image: Array, box: list[float], i: int, j: int) -> Array:
        return _pixels_of_bin(image, box, i, j, more=0).mean(axis=1)

    _check(ops.PSRoIPool(_BINS, 1.0), 12, _pooled(_images(12), mean, own=True))


def _deformed(tensors: list[torch.Tensor], stride: int, padding: int) -> torch.Tensor:
    """Return a deformable convolution in two groups, with the offsets in two groups as well."""
    x, weight, offset, mask, bias = (each.numpy() for each in tensors)
    outputs, channels, height, width = weight.shape
    result = np.zeros((len(x), outputs, *offset.shape[2:]))
    for n, o, i, j in np.ndindex(result.shape):
        group = o // (outputs // 2)
        part = x[n, group * channels : (group + 1) * channels]
        total = bias[o]
        for k, (row, column) in enumerate(np.ndindex(height, width)):
            tap = group * height * width + k
            y = i * stride - padding + row + offset[n, 2 * tap, i, j]
            left = j * stride - padding + column + offset[n, 2 * tap + 1, i, j]
            pixel = _sample(part, y, left, border=False) * mask[n, tap, i, j]
            total += (pixel * weight[o, :, row, column]).sum()
        result[n, o, i, j] = total
    return torch.from_numpy(result)


def test_deform_conv2d() -> None:
    generator = torch.Generator().manual_seed(1)
    shapes = [(2, 4, 5, 6), (4, 2, 3, 2), (2, 24, 3, 4), (2, 12, 3, 4), (4,)]
    x, weight, offset, mask, bias = (
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes
    )

    def convolve(*tensors: torch.Tensor) -> torch.Tensor:
        x, weight, offset, mask, bias = tensors
        return ops.deform_conv2d(x, offset, weight, bias, stride=2, padding=1, mask=mask)

    tensors = [x, weight, offset, mask, bias]
    expected = _deformed(tensors, stride=2, padding=1)
    torch.testing.assert_close(convolve(*tensors), expected)
    for each in tensors:
        each.requires_grad_()
    assert torch.autograd.gradcheck(convolve, tensors, atol=1e-6, fast_mode=True)


def _overlap(a: list[float], b: list[float]) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    common = max(width, 0) * max(height, 0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return common / (sum(areas) - common)


@pytest.mark.parametrize("threshold", [0.1, 0.5])
def test_nms(threshold: float) -> None:
    generator = torch.Generator().manual_seed(2)
    boxes, scores = _boxes(60, generator), torch.rand(60, generator=generator)
    rows = boxes.tolist()
    kept: list[int] = []
    for index in scores.argsort(descending=True).tolist():
        if all(_overlap(rows[index], rows[other]) <= threshold for other in kept):
            kept.append(index)
    assert ops.nms(boxes, scores, threshold).tolist() == kept
    assert 1 < len(kept) < 60


def test_boxes_of_different_classes_do_not_suppress_each_other() -> None:
    boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 4], [0, 0, 4, 4]])
    scores, classes = torch.tensor([0.5, 0.9, 0.7]), torch.tensor([0, 1, 0])
    assert ops.batched_nms(boxes, scores, classes, 0.5).tolist() == [1, 2]
    assert ops.nms(boxes[:0], scores[:0], 0.5).shape == (0,)


def _is_inside(box: list[float], x: Array, y: Array) -> Array:
    cosine, sine = math.cos(math.radians(box[4])), math.sin(math.radians(box[4]))
    x, y = x - box[0], y - box[1]
    along, across = x * cosine - y * sine, x * sine + y * cosine
    return (abs(along) <= box[2] / 2) & (abs(across) <= box[3] / 2)


def test_rotated_boxes() -> None:
    generator = torch.Generator().manual_seed(3)
    sizes = torch.tensor([4.0, 4, 5, 5, 360])
    boxes = torch.rand(8, 5, generator=generator) * sizes + torch.tensor([0.0, 0, 1, 1, -180])
    overlaps = ops.box_iou(boxes, boxes, fmt="cxcywhr")
    x, y = np.meshgrid(np.linspace(-6, 10, 1000), np.linspace(-6, 10, 1000))
    inside = [_is_inside(box, x, y) for box in boxes.tolist()]
    counted = [[(a & b).sum() / (a | b).sum() for b in inside] for a in inside]
    torch.testing.assert_close(overlaps, torch.tensor(counted).float(), rtol=0, atol=5e-3)
    assert overlaps.diagonal().tolist() == pytest.approx([1.0] * 8, abs=1e-5)


def test_rotated_boxes_with_known_overlaps() -> None:
    square = torch.tensor([[100.0, 50, 2, 2, 0]], dtype=torch.float64)
    others = torch.tensor(
        [
            [100.0, 50, 2, 2, 45],  # the intersection is a regular octagon
            [100, 50, 2, 2, 90],
            [100, 50, 1, 1, 30],  # inside the square
            [101, 50, 2, 2, 0],
            [103, 50, 2, 2, 0],
            [100, 50, 0, 0, 0],
        ],
        dtype=torch.float64,
    )
    (overlaps,) = ops.box_iou(square, others, fmt="cxcywhr").tolist()
    assert overlaps == pytest.approx([math.sqrt(0.5), 1, 1 / 4, 1 / 3, 0, 0])
    empty: Any = ops.box_iou(square[:0], others, fmt="cxcywhr")
    assert empty.shape == (0, 6)
    with pytest.raises(RuntimeError, match=r"boxes2 should have shape \(M, 5\)"):
        torch.ops.torchvision.box_iou_rotated(square, others[:, :4])


def test_quantized_boxes() -> None:
    generator = torch.Generator().manual_seed(4)
    boxes, ranks = _boxes(40, generator).round(), torch.randperm(40, generator=generator)
    scores = (ranks + 1) / 64
    quantized = [torch.quantize_per_tensor(x, 1 / 64, 0, torch.qint32) for x in (boxes, scores)]
    assert ops.nms(*quantized, 0.3).tolist() == ops.nms(boxes, scores, 0.3).tolist()


def test_quantized_images() -> None:
    images = torch.quantize_per_tensor(_images(2)[:1].float(), 0.05, 128, torch.quint8)
    boxes = torch.quantize_per_tensor(_ROIS[:1].float(), 0.1, 0, torch.quint8)
    output = ops.roi_align(images, boxes, _BINS, 0.8, 2)
    expected = ops.roi_align(images.dequantize(), boxes.dequantize(), _BINS, 0.8, 2)
    torch.testing.assert_close(output.dequantize(), expected, rtol=0, atol=0.05)


def test_autocast_computes_in_float32_and_keeps_the_dtype() -> None:
    images, rois = _images(2).float(), _ROIS.float()
    with torch.autocast("cpu", torch.bfloat16):
        output = ops.roi_align(images.bfloat16(), rois.bfloat16(), _BINS)
    expected = ops.roi_align(images.bfloat16().float(), rois.bfloat16().float(), _BINS)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output, expected.bfloat16())


def test_a_second_derivative_is_refused() -> None:
    images = _images(2).requires_grad_()
    output = ops.roi_align(images, _ROIS, _BINS)
    (gradient,) = torch.autograd.grad((output**2).sum(), images, create_graph=True)
    with pytest.raises(RuntimeError, match="double backwards on roi_align not supported"):
        gradient.sum().backward()
