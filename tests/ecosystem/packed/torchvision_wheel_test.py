# SPDX-License-Identifier: Apache-2.0
"""The compiled operators have the schemas and results of those in torchvision's published wheel.

third_party/torchvision compiles an older release of the operators than the wheel's Python code. The
wheel's own library is loaded in another process, with stubs of CUDA's libraries.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.ecosystem import cuda_stand_in

# A copy of the wheel's torchvision/_C.so.
_LIBRARY = Path(__file__).with_name("torchvision_wheel.so")
_BINS = (2, 3)

Results = Mapping[str, Any]


def _boxes(count: int, size: float) -> torch.Tensor:
    """Return random boxes, some of them partly or entirely outside of an image of `size`."""
    corners = torch.rand(count, 2, 2) * (size + 6) - 3
    return torch.cat([corners.amin(1), corners.amax(1)], dim=1)


def _pooled() -> Results:
    vision = torch.ops.torchvision
    results: dict[str, Any] = {}
    for dtype in (torch.float32, torch.float64):
        x = torch.randn(2, 12, 9, 11).to(dtype)
        rois = torch.cat([torch.randint(0, 2, (30, 1)), _boxes(30, 11)], dim=1).to(dtype)
        rois[0, 1:], rois[1, 1:] = 3, 40  # a point, and a box that is outside
        for scale, ratio, aligned in ((1.0, 2, True), (0.5, -1, False), (0.5, -1, True)):
            case = f"{dtype} {scale} {ratio} {aligned}"
            options = (scale, *_BINS)
            output = vision.roi_align(x, rois, *options, ratio, aligned)
            backward = vision._roi_align_backward(
                output.cos(), rois, *options, *x.shape, ratio, aligned
            )
            results[f"roi_align {case}"] = [output, backward]
            output, mapping = vision.ps_roi_align(x, rois, *options, ratio)
            backward = vision._ps_roi_align_backward(
                output.cos(), rois, mapping, *options, ratio, *x.shape
            )
            results[f"ps_roi_align {case}"] = [output, mapping, backward]
            output, indices = vision.roi_pool(x, rois, *options)
            backward = vision._roi_pool_backward(output.cos(), rois, indices, *options, *x.shape)
            results[f"roi_pool {case}"] = [output, indices, backward]
            output, mapping = vision.ps_roi_pool(x, rois, *options)
            backward = vision._ps_roi_pool_backward(output.cos(), rois, mapping, *options, *x.shape)
            results[f"ps_roi_pool {case}"] = [output, mapping, backward]
    return results


def _convolved() -> Results:
    vision = torch.ops.torchvision
    results: dict[str, Any] = {}
    for stride, padding, dilation, groups, offset_groups, use_mask in (
        (1, 1, 1, 1, 1, True),
        (2, 0, 1, 2, 1, False),
        (1, 2, 2, 2, 3, True),
    ):
        x, weight = torch.randn(2, 6, 9, 8), torch.randn(4, 6 // groups, 3, 3)
        height, width = ((n + 2 * padding - 2 * dilation - 1) // stride + 1 for n in (9, 8))
        offset = torch.randn(2, 2 * offset_groups * 9, height, width) * 2
        mask = torch.rand(2, offset_groups * 9 if use_mask else 0, height, width)
        tensors = (x, weight, offset, mask, torch.randn(4))
        options = (*(n for n in (stride, padding, dilation) for _ in range(2)), groups)
        options = (*options, offset_groups, use_mask)
        output = vision.deform_conv2d(*tensors, *options)
        backward = vision._deform_conv2d_backward(output.cos(), *tensors, *options)
        results[f"deform_conv2d {options}"] = [output, *backward]
    return results


def _selected() -> Results:
    vision = torch.ops.torchvision
    boxes, scores = _boxes(200, 20), torch.rand(200)
    scores[50:60] = scores[50]
    levels = [(boxes.clamp(min=0) * 8).to(torch.uint8), (scores * 255).to(torch.uint8)]
    images = torch.randint(0, 255, (1, 3, 9, 11), dtype=torch.uint8)
    rois = torch.randint(0, 110, (20, 5), dtype=torch.uint8)
    quantized = [
        vision.qroi_align(images, rois, 0.05, 128, 0.1, 3, 0.8, *_BINS, ratio, aligned)
        for ratio, aligned in ((2, True), (-1, False))
    ]
    rotated = torch.rand(60, 5) * torch.tensor([8.0, 8, 6, 6, 360])
    rotated[0] = rotated[1]
    rotated[2, 4] = rotated[3, 4] = 0
    return {
        "nms": [vision.nms(boxes, scores, 0.3), vision.nms(boxes.double(), scores.double(), 0.6)],
        "qnms": [vision.qnms(*levels, 0.3)],
        "qroi_align": quantized,
        "box_iou_rotated": [vision.box_iou_rotated(rotated, rotated)],
        "box_iou_rotated float64": [vision.box_iou_rotated(rotated.double(), rotated.double())],
    }


def _evaluate() -> Results:
    torch.manual_seed(0)
    schemas = [str(schema) for schema in torch._C._jit_get_all_schemas()]
    return {
        "schemas": sorted(each for each in schemas if each.startswith("torchvision::")),
        **{
            name: [value.numpy() for value in values]
            for name, values in {**_pooled(), **_convolved(), **_selected()}.items()
        },
    }


def _evaluate_wheel(site: Path) -> Results:
    """Return the results of the wheel's own library. This runs in a process of its own."""
    cuda_stand_in.load_from(site)
    torch.ops.load_library(site / "torchvision" / "_C.so")
    return _evaluate()


@pytest.fixture(name="results", scope="module")
def _results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Results]:
    """Return the results of the compiled operators, and of those in the wheel."""
    site = tmp_path_factory.mktemp("site")
    (site / "torchvision").mkdir()
    (site / "torchvision" / "_C.so").symlink_to(_LIBRARY.resolve())
    cuda_stand_in.build(site)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        wheel = executor.submit(_evaluate_wheel, site)
        import torchvision  # noqa: F401  # registers the operators, so the child must not import it

        return _evaluate(), wheel.result()


def test_the_schemas_are_equal(results: tuple[Results, Results]) -> None:
    compiled, wheel = results
    assert compiled["schemas"] == wheel["schemas"]
    assert len(compiled["schemas"]) == 15


def test_the_results_are_equal(results: tuple[Results, Results]) -> None:
    compiled, wheel = results
    assert compiled.keys() == wheel.keys()
    for name in compiled.keys() - {"schemas"}:
        # float32 results differ by rounding, because the compilers are different.
        for ours, expected in zip(compiled[name], wheel[name], strict=True):
            torch.testing.assert_close(
                torch.from_numpy(ours), torch.from_numpy(expected),
                rtol=1e-4, atol=1e-4, equal_nan=True, msg=lambda text, name=name: f"{name}: {text}",
            )  # fmt: skip
