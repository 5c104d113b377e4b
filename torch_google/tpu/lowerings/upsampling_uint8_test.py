# SPDX-License-Identifier: Apache-2.0
"""Results of resampling uint8 images match the CPU's, bit for bit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

# Output sizes. A size of one pixel is left out, because it fails an internal assertion on the CPU.
_SIZES = [(9, 23), (13, 5), (26, 34), (2, 41), (40, 3)]


@pytest.mark.parametrize("mode", ["strict", "fused", "debug"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("kind", ["bilinear", "bicubic"])
def test_bytes_are_those_of_the_cpu(kind: str, antialias: bool, mode: str) -> None:
    generator = torch.Generator().manual_seed(3)
    options: dict[str, Any] = {"mode": kind, "antialias": antialias}
    for channels in (3, 5):
        shape = (2, channels, 13, 17)
        x = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
        with torch.tpu.eager_mode(mode):
            for size in _SIZES if mode == "strict" else _SIZES[:1]:
                expected = functional.interpolate(x, size=size, **options)
                actual = functional.interpolate(x.to("tpu"), size=size, **options)
                assert torch.equal(actual.cpu(), expected), (channels, size)


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("kind", ["bilinear", "bicubic"])
def test_scales_corners_and_compiled(kind: str, antialias: bool) -> None:
    def resized(x: torch.Tensor) -> list[torch.Tensor]:
        options: dict[str, Any] = {"mode": kind, "antialias": antialias}
        return [
            functional.interpolate(x, scale_factor=(0.7, 1.9), **options),
            functional.interpolate(x, size=(7, 30), align_corners=True, **options),
        ]

    x = torch.arange(2 * 3 * 11 * 12).remainder(251).to(torch.uint8).reshape(2, 3, 11, 12)
    expected = resized(x)
    works = [resized]
    # Even on the CPU, torch.compile decomposes bilinear interpolation without antialiasing into
    # floating-point operations.
    if antialias or kind == "bicubic":
        works.append(torch.compile(resized))
    for work in works:
        for actual, their in zip(work(x.to("tpu")), expected, strict=True):
            assert torch.equal(actual.cpu(), their)
