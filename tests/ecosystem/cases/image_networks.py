# SPDX-License-Identifier: Apache-2.0
"""Test cases for image networks and operations: families of timm and torchvision."""

from __future__ import annotations

from typing import Any

import torch

from tests.ecosystem.case import EAGER, Run, case

_IMAGES = (2, 3, 32, 32)
# Networks that shrink images 32-fold need larger ones: with few values per channel, batch
# normalization is ill-conditioned.
_LARGE_IMAGES = (4, 3, 64, 64)


def _boxes(count: int, size: float = 30) -> torch.Tensor:
    corners = torch.rand(count, 2, 2) * size
    return torch.cat([corners.amin(1), corners.amax(1) + 1], dim=1)


@case("timm")
def efficientnet(run: Run) -> Any:
    from timm.models._efficientnet_builder import decode_arch_def
    from timm.models.efficientnet import EfficientNet

    blocks = decode_arch_def([["ds_r1_k3_s1_e1_c8_se0.25"], ["ir_r1_k3_s2_e2_c8_se0.25"]])
    model = EfficientNet(blocks, num_classes=4, num_features=16, stem_size=8)
    return run.train(model, [torch.randn(_IMAGES)], steps=1)


@case("timm")
def mlp_mixer(run: Run) -> Any:
    from timm.models.mlp_mixer import MlpMixer

    model = MlpMixer(num_classes=4, img_size=16, patch_size=8, num_blocks=1, embed_dim=16)
    return run.train(model, [torch.randn(2, 3, 16, 16)], steps=1)


@case("timm")
def regnet(run: Run) -> Any:
    from timm.models.regnet import RegNet, RegNetCfg

    settings = RegNetCfg(depth=4, w0=8, wa=13.6, wm=2.0, group_size=4, se_ratio=0.25, stem_width=8)
    return run.evaluate(RegNet(settings, num_classes=4), [torch.randn(_LARGE_IMAGES)])


@case("timm")
def densenet(run: Run) -> Any:
    from timm.models.densenet import DenseNet

    model = DenseNet(growth_rate=4, block_config=(2, 2), num_classes=4)
    return run.evaluate(model, [torch.randn(_IMAGES)])


@case("timm")
def max_vit(run: Run) -> Any:
    from timm.models.maxxvit import MaxxVit, MaxxVitCfg, MaxxVitConvCfg, MaxxVitTransformerCfg

    settings = MaxxVitCfg(
        embed_dim=(8,), depths=(1,), block_type=("M",), stem_width=8,
        conv_cfg=MaxxVitConvCfg(), transformer_cfg=MaxxVitTransformerCfg(
            dim_head=4, window_size=(4, 4), grid_size=(4, 4)
        ),
    )  # fmt: skip
    return run.evaluate(MaxxVit(settings, img_size=16, num_classes=4), [torch.randn(2, 3, 16, 16)])


@case("timm")
def cross_covariance_transformer(run: Run) -> Any:
    from timm.models.xcit import Xcit

    model = Xcit(
        img_size=32,
        patch_size=16,
        num_classes=4,
        embed_dim=16,
        depth=1,
        num_heads=2,
        cls_attn_layers=1,
    )
    return run.evaluate(model, [torch.randn(_IMAGES)])


@case("timm")
def masked_image_transformer(run: Run) -> Any:
    from timm.models.eva import Eva

    model = Eva(
        img_size=16, patch_size=8, num_classes=4, embed_dim=16, depth=1, num_heads=2,
        use_rot_pos_emb=True, swiglu_mlp=True, scale_mlp=True,
    )  # fmt: skip
    return run.train(model, [torch.randn(2, 3, 16, 16)], steps=1)


@case("timm")
def hybrid_features(run: Run) -> Any:
    import timm

    model = timm.create_model(
        "mobilenetv3_small_050", features_only=True, out_indices=(0, 2), pretrained=False
    )
    return run.evaluate(model, [torch.randn(_LARGE_IMAGES)])


@case("timm")
def classification_losses(run: Run) -> Any:
    from timm import loss

    scores, labels = run.put([torch.randn(6, 4), torch.randint(0, 4, (6,))])
    soft = run.put(torch.rand(6, 4))
    scores.requires_grad_()

    def apply(scores: torch.Tensor) -> list[torch.Tensor]:
        return [
            loss.LabelSmoothingCrossEntropy()(scores, labels),
            loss.SoftTargetCrossEntropy()(scores, soft),
            loss.AsymmetricLossMultiLabel()(scores, soft),
            loss.BinaryCrossEntropy(smoothing=0.1)(scores, labels),
            loss.JsdCrossEntropy()(scores, labels[:2]),
        ]

    values = run.compiled(apply)(scores)
    return values, torch.autograd.grad(sum(values), scores)


@case("timm", modes=EAGER)
def mixup(run: Run) -> Any:
    from timm.data import Mixup

    images, labels = run.put([torch.rand(4, 3, 8, 8), torch.randint(0, 3, (4,))])
    return Mixup(mixup_alpha=0.3, cutmix_alpha=1.0, num_classes=3)(images, labels)


def _by_name(run: Run, name: str, **settings: Any) -> Any:
    from timm.optim import create_optimizer_v2

    return run.optimize(lambda p: create_optimizer_v2(p, name, lr=1e-2, **settings))


@case("timm")
def adan(run: Run) -> Any:
    return _by_name(run, "adan")


@case("timm")
def muon(run: Run) -> Any:
    return _by_name(run, "muon")


@case("timm")
def nadamw(run: Run) -> Any:
    return _by_name(run, "nadamw", weight_decay=0.1)


@case("timm")
def madgrad(run: Run) -> Any:
    return _by_name(run, "madgrad")


@case("timm", modes=EAGER)
def model_average(run: Run) -> Any:
    from timm.utils import ModelEmaV3, dispatch_clip_grad

    model = run.put(torch.nn.Linear(4, 3))
    average = ModelEmaV3(model, decay=0.9)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(run.put(torch.randn(5, 4))).square().mean().backward()
        dispatch_clip_grad(model.parameters(), 0.1, mode="agc")
        optimizer.step()
        average.update(model)
    return dict(average.module.named_parameters())


@case("torchvision")
def resnet_bottleneck(run: Run) -> Any:
    from torchvision.models.resnet import Bottleneck

    shortcut = torch.nn.Conv2d(8, 16, 1, 2)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), Bottleneck(8, 4, stride=2, downsample=shortcut)
    )
    return run.train(model, [torch.randn(_IMAGES)], steps=1)


@case("torchvision")
def torchvision_vit(run: Run) -> Any:
    from torchvision.models import VisionTransformer

    model = VisionTransformer(
        image_size=16,
        patch_size=8,
        num_layers=1,
        num_heads=2,
        hidden_dim=16,
        mlp_dim=16,
        num_classes=4,
    )
    return run.train(model, [torch.randn(2, 3, 16, 16)], steps=1)


@case("torchvision")
def shifted_windows(run: Run) -> Any:
    from torchvision.models.swin_transformer import SwinTransformer, SwinTransformerBlockV2

    model = SwinTransformer(
        patch_size=[4, 4], embed_dim=8, depths=[2], num_heads=[2], window_size=[4, 4],
        num_classes=4, stochastic_depth_prob=0.0, block=SwinTransformerBlockV2,
    )  # fmt: skip
    return run.train(model, [torch.randn(_IMAGES)], steps=1)


@case("torchvision")
def squeezenet(run: Run) -> Any:
    from torchvision.models import squeezenet1_1

    return run.evaluate(squeezenet1_1(weights=None, num_classes=4), [torch.randn(_IMAGES)])


@case("torchvision")
def deeplab(run: Run) -> Any:
    from torchvision.models.segmentation.deeplabv3 import DeepLabHead

    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 4, 1), DeepLabHead(8, 3, (2, 4)))
    return run.evaluate(model, [torch.randn(_IMAGES)])


@case("torchvision", modes=EAGER)
def keypoints_and_masks(run: Run) -> Any:
    from torchvision.models.detection.roi_heads import (
        keypointrcnn_inference,
        maskrcnn_inference,
        paste_masks_in_image,
    )

    labels, boxes = torch.tensor([1, 0]), torch.tensor([[1.0, 1, 8, 8], [2, 3, 10, 9]])
    masks = maskrcnn_inference(*run.put([torch.randn(2, 3, 8, 8), [labels]]))
    points = keypointrcnn_inference(*run.put([torch.randn(2, 3, 8, 8), [boxes]]))
    return masks, points, paste_masks_in_image(masks[0], run.put(boxes), (12, 12))


@case("torchvision")
def feature_pyramid(run: Run) -> Any:
    from torchvision.ops import FeaturePyramidNetwork, MultiScaleRoIAlign

    maps = {"0": torch.randn(1, 4, 8, 8), "1": torch.randn(1, 8, 4, 4)}
    pyramid = run.put(FeaturePyramidNetwork([4, 8], 6))
    outputs = run.compiled(pyramid)(run.put(maps))
    pool = MultiScaleRoIAlign(["0", "1"], output_size=3, sampling_ratio=2)
    return outputs, run.compiled(pool)(outputs, [run.put(_boxes(4))], [(32, 32)])


@case("torchvision")
def box_losses(run: Run) -> Any:
    from torchvision import ops

    a, b = run.put([_boxes(5), _boxes(5)])
    a.requires_grad_()
    kinds = (
        ops.generalized_box_iou_loss, ops.distance_box_iou_loss, ops.complete_box_iou_loss
    )  # fmt: skip

    def apply(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        values = [kind(a, b, reduction="mean") for kind in kinds]
        focal = ops.sigmoid_focal_loss(a / 30, (b > 15).float(), reduction="mean")
        return [*values, focal]

    values = run.compiled(apply)(a, b)
    return values, torch.autograd.grad(sum(values), a)


@case("torchvision")
def box_operations(run: Run) -> Any:
    from torchvision import ops

    a, b, masks = run.put([_boxes(5), _boxes(4), torch.rand(3, 8, 8) > 0.7])

    def apply(a: torch.Tensor, b: torch.Tensor, masks: torch.Tensor) -> list[torch.Tensor]:
        return [
            ops.box_area(a), ops.box_iou(a, b), ops.generalized_box_iou(a, b),
            ops.distance_box_iou(a, b), ops.box_convert(a, "xyxy", "cxcywh"),
            ops.clip_boxes_to_image(a, (16, 16)), ops.remove_small_boxes(a, 5.0),
            ops.masks_to_boxes(masks),
        ]  # fmt: skip

    return run.compiled(apply)(a, b, masks)


@case("torchvision")
def image_functions(run: Run) -> Any:
    from torchvision.transforms.v2 import functional

    image, moves = run.put([torch.rand(3, 16, 16), torch.zeros(1, 16, 16, 2) + 0.05])
    corners = [[0, 0], [15, 0], [15, 15], [0, 15]], [[2, 1], [14, 0], [15, 13], [1, 15]]

    def apply(image: torch.Tensor) -> list[torch.Tensor]:
        return [
            functional.gaussian_blur(image, [3, 3], [1.0, 1.0]), functional.adjust_hue(image, 0.2),
            functional.adjust_saturation(image, 1.5), functional.rotate(image, 30.0),
            functional.perspective(image, *corners), functional.autocontrast(image),
            functional.rgb_to_grayscale(image), functional.adjust_sharpness(image, 2.0),
            functional.horizontal_flip(image), functional.elastic(image, moves),
        ]  # fmt: skip

    return run.compiled(apply)(image)


@case("torchvision")
def image_bytes(run: Run) -> Any:
    from torchvision.transforms.v2 import functional
    from torchvision.utils import draw_segmentation_masks, make_grid

    image = run.put(torch.randint(0, 256, (3, 16, 16), dtype=torch.uint8))
    masks = run.put(torch.rand(2, 16, 16) > 0.5)

    def apply(image: torch.Tensor) -> list[torch.Tensor]:
        return [
            functional.equalize(image), functional.posterize(image, 3),
            functional.solarize(image, 128.0), functional.invert(image),
            functional.to_dtype(image, torch.float32, scale=True),
            make_grid(image[None].repeat(3, 1, 1, 1)),
        ]  # fmt: skip

    drawn = draw_segmentation_masks(image, masks, colors=["red", "blue"])
    return run.compiled(apply)(image), drawn


@case("torchvision", modes=EAGER)
def annotated_images(run: Run) -> Any:
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    image = tv_tensors.Image(torch.rand(3, 16, 20))
    boxes = tv_tensors.BoundingBoxes(_boxes(3, 14), format="XYXY", canvas_size=(16, 20))
    mask = tv_tensors.Mask(torch.randint(0, 3, (16, 20)))
    pipeline = v2.Compose([v2.RandomHorizontalFlip(1.0), v2.Resize((12, 15)), v2.CenterCrop(10)])
    return [part.as_subclass(torch.Tensor) for part in pipeline(*run.put([image, boxes, mask]))]
