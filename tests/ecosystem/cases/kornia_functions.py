# SPDX-License-Identifier: Apache-2.0
"""Test cases for kornia: colors, filters, geometry, features, losses and augmentation."""

from __future__ import annotations

from typing import Any

import torch

from tests.ecosystem.case import Run, case


@case("kornia")
def colors(run: Run) -> Any:
    from kornia import color

    image = run.put(torch.rand(1, 3, 8, 8))

    def apply(image: torch.Tensor) -> list[torch.Tensor]:
        return [
            color.rgb_to_lab(image), color.rgb_to_yuv(image), color.rgb_to_grayscale(image),
            color.rgb_to_xyz(image), color.hsv_to_rgb(image), color.rgb_to_ycbcr(image),
        ]  # fmt: skip

    return run.compiled(apply)(image)


@case("kornia")
def adjustments(run: Run) -> Any:
    from kornia import enhance

    image = run.put(torch.rand(1, 3, 16, 16))

    def apply(image: torch.Tensor) -> list[torch.Tensor]:
        return [
            enhance.adjust_contrast(image, 1.3), enhance.adjust_gamma(image, 0.8),
            enhance.adjust_saturation(image, 1.2), enhance.posterize(image, 3),
            enhance.normalize_min_max(image), enhance.sharpness(image, 0.5),
        ]  # fmt: skip

    return run.compiled(apply)(image)


@case("kornia")
def histograms(run: Run) -> Any:
    from kornia import enhance

    image = run.put(torch.rand(1, 1, 16, 16))
    values = run.put(torch.rand(1, 20))
    bins, bandwidth = run.put([torch.linspace(0, 1, 5), torch.tensor(0.1)])

    def apply(image: torch.Tensor, values: torch.Tensor) -> list[torch.Tensor]:
        return [
            enhance.equalize(image),
            enhance.equalize_clahe(image, grid_size=(2, 2)),
            enhance.histogram(values, bins, bandwidth),
        ]

    return run.compiled(apply)(image, values)


@case("kornia")
def edge_filters(run: Run) -> Any:
    from kornia import filters

    image = run.put(torch.rand(1, 1, 16, 16))

    def apply(image: torch.Tensor) -> list[Any]:
        return [
            filters.canny(image), filters.laplacian(image, 3), filters.median_blur(image, (3, 3)),
            filters.bilateral_blur(image, (3, 3), 0.1, (1.0, 1.0)), filters.spatial_gradient(image),
            filters.unsharp_mask(image, (3, 3), (1.0, 1.0)),
            filters.motion_blur(image, 3, 30.0, 0.5), filters.guided_blur(image, image, 3, 0.1),
        ]  # fmt: skip

    return run.compiled(apply)(image)


@case("kornia")
def morphology(run: Run) -> Any:
    from kornia import morphology as kinds

    image, kernel = run.put([torch.rand(1, 1, 10, 10), torch.ones(3, 3)])
    functions = (kinds.dilation, kinds.erosion, kinds.opening, kinds.closing, kinds.gradient)
    return run.compiled(lambda image: [function(image, kernel) for function in functions])(image)


@case("kornia")
def warped_images(run: Run) -> Any:
    from kornia.geometry import transform

    image = run.put(torch.rand(1, 1, 12, 12)).requires_grad_()
    source, target = run.put([
        torch.tensor([[[0.0, 0], [11, 0], [11, 11], [0, 11]]]),
        torch.tensor([[[1.0, 1], [10, 0], [11, 10], [0, 11]]]),
    ])  # fmt: skip

    def apply(image: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> Any:
        matrix = transform.get_perspective_transform(source, target)
        warped = transform.warp_perspective(image, matrix, (12, 12))
        affine = transform.warp_affine(image, matrix[:, :2], (12, 12))
        return matrix, warped, affine, transform.build_pyramid(image, 3)

    results = run.compiled(apply)(image, source, target)
    _, warped, affine, _ = results
    return results, torch.autograd.grad(warped.square().sum() + affine.sum(), image)


@case("kornia")
def cameras(run: Run) -> Any:
    from kornia import geometry

    points, depth = run.put([torch.rand(1, 8, 3) + 1, torch.rand(1, 1, 6, 6) + 1])
    camera = run.put(torch.tensor([[[4.0, 0, 3], [0, 4, 3], [0, 0, 1]]]))
    quaternion = run.put(torch.tensor([[0.6, 0.8, 0, 0]]))

    def apply(points: torch.Tensor, depth: torch.Tensor, camera: torch.Tensor) -> Any:
        flat = geometry.camera.project_points(points, camera)
        return [
            flat, geometry.depth.depth_to_3d(depth, camera),
            geometry.conversions.quaternion_to_rotation_matrix(quaternion),
            geometry.linalg.transform_points(camera, flat),
            geometry.epipolar.cross_product_matrix(points[0]),
        ]  # fmt: skip

    return run.compiled(apply)(points, depth, camera)


@case("kornia")
def homography(run: Run) -> Any:
    from kornia.geometry import find_homography_dlt, transform_points

    points = torch.rand(1, 8, 2) * 10
    matrix = torch.tensor([[[1.1, 0.1, 1.0], [0.0, 0.9, 2.0], [0.01, 0.0, 1.0]]])
    points, moved = run.put([points, transform_points(matrix, points)])
    found = run.compiled(find_homography_dlt)(points, moved)
    return found / found[:, 2:, 2:]


@case("kornia")
def corners_and_descriptors(run: Run) -> Any:
    from kornia import feature

    image = run.put(torch.rand(1, 1, 32, 32))
    patches = run.put(torch.rand(3, 1, 16, 16))
    a, b = run.put([torch.rand(5, 8), torch.rand(6, 8)])
    descriptor = run.put(feature.SIFTDescriptor(16))

    def apply(image: torch.Tensor, patches: torch.Tensor) -> list[Any]:
        return [
            feature.harris_response(image), feature.gftt_response(image), descriptor(patches),
            feature.match_nn(a, b), feature.match_mnn(a, b),
        ]  # fmt: skip

    return run.compiled(apply)(image, patches)


@case("kornia")
def segmentation_losses(run: Run) -> Any:
    from kornia import losses

    scores, target = run.put([torch.randn(2, 3, 6, 6), torch.randint(0, 3, (2, 6, 6))])

    def apply(scores: torch.Tensor) -> list[torch.Tensor]:
        return [
            losses.dice_loss(scores, target), losses.tversky_loss(scores, target, 0.4, 0.6),
            losses.focal_loss(scores, target, 0.5, reduction="mean"),
            losses.lovasz_softmax_loss(scores, target),
        ]  # fmt: skip

    return run.compiled(apply)(scores)


@case("kornia")
def image_losses(run: Run) -> Any:
    from kornia import losses

    a, b = run.put([torch.rand(1, 3, 12, 12), torch.rand(1, 3, 12, 12)])
    a.requires_grad_()

    def apply(a: torch.Tensor) -> list[torch.Tensor]:
        return [
            losses.psnr_loss(a, b, 1.0), losses.charbonnier_loss(a, b, reduction="mean"),
            losses.welsch_loss(a, b, reduction="mean"), losses.cauchy_loss(a, b, reduction="mean"),
            losses.inverse_depth_smoothness_loss(a[:, :1], b), losses.js_div_loss_2d(a, b),
        ]  # fmt: skip

    values = run.compiled(apply)(a)
    return values, torch.autograd.grad(sum(values), a)


@case("kornia")
def augmentation(run: Run) -> Any:
    from kornia import augmentation as kinds

    image = run.put(torch.rand(2, 3, 16, 16))
    steps = kinds.AugmentationSequential(
        kinds.RandomHorizontalFlip(p=1.0), kinds.CenterCrop((12, 12)),
        kinds.RandomGrayscale(p=1.0), kinds.Normalize(0.5, 0.2), kinds.RandomInvert(p=1.0),
        data_keys=["input", "mask"],
    )  # fmt: skip
    return run.compiled(steps)(image, (image[:, :1] > 0.5).float())
