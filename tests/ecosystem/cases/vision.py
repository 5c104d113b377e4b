# SPDX-License-Identifier: Apache-2.0
"""Test cases for computer vision: classifiers, detectors, losses and metrics."""

from __future__ import annotations

from typing import Any

import torch

from tests.ecosystem.case import ALL, EAGER, Run, case

_IMAGES = (2, 3, 32, 32)
# For networks that shrink images 32-fold: _IMAGES would leave only two values per channel, for
# which batch normalization is ill-conditioned.
_LARGE_IMAGES = (4, 3, 64, 64)


def _boxes(count: int, size: float = 30) -> torch.Tensor:
    corners = torch.rand(count, 2, 2) * size
    return torch.cat([corners.amin(1), corners.amax(1) + 1], dim=1)


@case("torchvision")
def nms(run: Run) -> Any:
    from torchvision import ops

    boxes, scores = run.put([_boxes(40), torch.rand(40)])
    classes = run.put(torch.randint(0, 3, (40,)))

    def apply(boxes: torch.Tensor, scores: torch.Tensor, classes: torch.Tensor) -> Any:
        return [ops.nms(boxes, scores, 0.3), ops.batched_nms(boxes, scores, classes, 0.3)]

    return run.compiled(apply)(boxes, scores, classes)


def _pooled(run: Run, pool: Any, channels: int) -> Any:
    images = run.put(torch.randn(2, channels, 16, 16)).requires_grad_()
    boxes = run.put(torch.cat([torch.randint(0, 2, (5, 1)).float(), _boxes(5)], dim=1))
    output = run.compiled(pool)(images, boxes)
    (gradient,) = torch.autograd.grad((output * output).sum(), images)
    return output, gradient


@case("torchvision")
def roi_align(run: Run) -> Any:
    from torchvision import ops

    return [_pooled(run, ops.RoIAlign(3, 0.5, ratio), 2) for ratio in (2, -1)]


@case("torchvision")
def roi_pool(run: Run) -> Any:
    from torchvision import ops

    return _pooled(run, ops.RoIPool(3, 0.5), 2)


@case("torchvision")
def ps_roi_align(run: Run) -> Any:
    from torchvision import ops

    return _pooled(run, ops.PSRoIAlign(2, 0.5, 2), 8)


@case("torchvision")
def ps_roi_pool(run: Run) -> Any:
    from torchvision import ops

    return _pooled(run, ops.PSRoIPool(2, 0.5), 8)


@case("torchvision")
def deform_conv2d(run: Run) -> Any:
    from torchvision import ops

    layer = ops.DeformConv2d(4, 6, 3, padding=1, groups=2)
    inputs = [torch.randn(2, 4, 6, 6), torch.randn(2, 18, 6, 6), torch.rand(2, 9, 6, 6)]
    return run.train(layer, inputs)


@case("torchvision")
def mobilenet(run: Run) -> Any:
    from torchvision.models.mobilenetv3 import InvertedResidualConfig, MobileNetV3

    blocks = [InvertedResidualConfig(16, 3, 16, 16, True, "HS", 2, 1, 0.25)]
    return run.train(MobileNetV3(blocks, last_channel=16, num_classes=4), [torch.randn(_IMAGES)])


def detector() -> torch.nn.Module:
    """Return a small detector that trains on all boxes, not on a random sample of them."""
    from torchvision.models.detection import FasterRCNN
    from torchvision.models.detection.anchor_utils import AnchorGenerator

    backbone: Any = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 4, 1), torch.nn.ReLU())
    backbone.out_channels = 8
    return FasterRCNN(
        backbone, min_size=32, max_size=32,
        rpn_anchor_generator=AnchorGenerator(((8, 16),), ((1.0,),)),
        rpn_pre_nms_top_n_train=20, rpn_post_nms_top_n_train=8,
        rpn_batch_size_per_image=200, rpn_positive_fraction=1.0, rpn_fg_iou_thresh=0.3,
        box_batch_size_per_image=200, box_positive_fraction=1.0,
        box_head=torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8 * 49, 16)),
        box_predictor=_Predictor(),
    )  # fmt: skip


@case("torchvision", modes=EAGER, rtol=2e-3)
def faster_rcnn(run: Run) -> Any:
    model = run.put(detector()).train()
    images = run.put([torch.rand(3, 32, 32) for _ in range(2)])
    targets = run.put([{"boxes": _boxes(3), "labels": torch.tensor([1, 2, 1])} for _ in range(2)])
    losses = model(images, targets)
    sum(losses.values()).backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {"losses": losses, "gradients": gradients}


class _Predictor(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.classes = torch.nn.Linear(16, 3)
        self.boxes = torch.nn.Linear(16, 12)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.classes(x), self.boxes(x)


@case("torchvision")
def transforms(run: Run) -> Any:
    from torchvision.transforms import v2

    # Use a float image: on devices other than the CPU, torchvision converts uint8 images to float
    # before resizing them.
    pipeline = v2.Compose([v2.Resize(20), v2.CenterCrop(16), v2.Normalize([0.5], [0.2])])
    return run.compiled(pipeline)(run.put(torch.rand(3, 24, 30)))


def _timm(run: Run, name: str, size: int = 32, **settings: Any) -> Any:
    import timm

    model = timm.create_model(name, num_classes=4, **settings)
    return run.train(model, [torch.randn(2, 3, size, size)], steps=1)


@case("timm")
def resnet(run: Run) -> Any:
    from timm.models.resnet import BasicBlock, ResNet

    model = ResNet(BasicBlock, [1] * 4, channels=(8, 8, 16, 16), num_classes=4, stem_width=8)
    return run.train(model, [torch.randn(_LARGE_IMAGES)])


@case("timm")
def vision_transformer(run: Run) -> Any:
    return _timm(
        run, "vit_tiny_patch16_224", img_size=32, embed_dim=16, depth=1, num_heads=2, patch_size=8
    )


@case("timm")
def convnext(run: Run) -> Any:
    from timm.models.convnext import ConvNeXt

    model = ConvNeXt(depths=(1,) * 4, dims=(8, 8, 16, 16), num_classes=4)
    return run.train(model, [torch.randn(_IMAGES)], steps=1)


@case("timm")
def swin(run: Run) -> Any:
    from timm.models.swin_transformer import SwinTransformer

    model = SwinTransformer(
        img_size=32, patch_size=4, embed_dim=8, depths=(2,), num_heads=(2,), window_size=4,
        num_classes=4, drop_path_rate=0.0,
    )  # fmt: skip
    return run.train(model, [torch.randn(_IMAGES)], steps=1)


@case("timm")
def optimizers(run: Run) -> Any:
    from timm.optim import create_optimizer_v2

    return run.train(
        torch.nn.Linear(4, 3), [torch.randn(5, 4)],
        optimizer=lambda p: create_optimizer_v2(list(p), "lamb", lr=1e-3),
    )  # fmt: skip


@case("kornia", modes=ALL)
def filters(run: Run) -> Any:
    import kornia

    image = run.put(torch.rand(1, 3, 16, 16))

    def apply(image: torch.Tensor) -> list[torch.Tensor]:
        blurred = kornia.filters.gaussian_blur2d(image, (3, 3), (1.0, 1.0))
        return [blurred, kornia.filters.sobel(image), kornia.color.rgb_to_hsv(image)]

    return run.compiled(apply)(image)


@case("kornia")
def geometry(run: Run) -> Any:
    import kornia

    image, angle = run.put([torch.rand(2, 1, 12, 12), torch.tensor([30.0, -10.0])])

    def apply(image: torch.Tensor, angle: torch.Tensor, axis: torch.Tensor) -> Any:
        return [
            kornia.geometry.transform.rotate(image, angle),
            kornia.geometry.transform.pyrdown(image),
            kornia.geometry.conversions.axis_angle_to_rotation_matrix(axis),
        ]

    return run.compiled(apply)(image, angle, run.put(torch.rand(2, 3)))


@case("kornia")
def kornia_losses(run: Run) -> Any:
    import kornia

    a, b = run.put([torch.rand(1, 1, 12, 12), torch.rand(1, 1, 12, 12)])
    a.requires_grad_()

    def apply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return kornia.losses.ssim_loss(a, b, 5) + kornia.losses.total_variation(a).mean()

    loss = run.compiled(apply)(a, b)
    return loss, torch.autograd.grad(loss, a)


@case("open_clip_torch")
def clip(run: Run) -> Any:
    from open_clip.loss import ClipLoss
    from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

    model = CLIP(
        8,
        CLIPVisionCfg(layers=1, width=16, head_width=8, image_size=16, patch_size=8),
        CLIPTextCfg(context_length=6, vocab_size=32, width=16, heads=2, layers=1),
    )
    loss = ClipLoss()
    tokens = torch.randint(1, 32, (2, 6))
    return run.train(
        model, [torch.randn(2, 3, 16, 16), tokens], loss=lambda out: loss(*out[:3]), steps=1
    )


@case("segmentation_models_pytorch")
def unet(run: Run) -> Any:
    import segmentation_models_pytorch as smp

    model = smp.Unet(
        "timm-mobilenetv3_small_minimal_100", encoder_weights=None, encoder_depth=2,
        decoder_channels=(8, 4), classes=2,
    )  # fmt: skip
    return run.train(model, [torch.randn(_LARGE_IMAGES)], steps=1)


@case("segmentation_models_pytorch")
def smp_losses(run: Run) -> Any:
    import segmentation_models_pytorch as smp

    scores, target = run.put([torch.randn(2, 1, 6, 6), torch.randint(0, 2, (2, 1, 6, 6))])
    losses = [kind("binary") for kind in (smp.losses.DiceLoss, smp.losses.FocalLoss)]
    return run.compiled(lambda x, y: [loss(x, y) for loss in losses])(scores, target)


@case("ultralytics")
def yolo_blocks(run: Run) -> Any:
    from ultralytics.nn.modules import SPPF, C2f, Conv

    model = torch.nn.Sequential(Conv(3, 8, 3, 2), C2f(8, 8, 1), SPPF(8, 8))
    return run.train(model, [torch.randn(_IMAGES)], steps=1)


@case("ultralytics")
def box_iou(run: Run) -> Any:
    from ultralytics.utils.metrics import bbox_iou, box_iou

    def apply(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        return [box_iou(a, b), bbox_iou(a, b, CIoU=True, xywh=False)]

    return run.compiled(apply)(*run.put([_boxes(5), _boxes(5)]))


@case("monai")
def monai_unet(run: Run) -> Any:
    from monai.networks.nets import UNet

    model = UNet(spatial_dims=2, in_channels=1, out_channels=2, channels=(4, 8), strides=(2,))
    return run.train(model, [torch.randn(1, 1, 16, 16)], steps=1)


@case("monai")
def monai_losses(run: Run) -> Any:
    from monai.losses import DiceCELoss, GeneralizedDiceLoss

    scores, target = run.put([torch.randn(2, 2, 6, 6), torch.randint(0, 2, (2, 1, 6, 6))])
    losses = [DiceCELoss(to_onehot_y=True, softmax=True)]
    losses += [GeneralizedDiceLoss(to_onehot_y=True, softmax=True)]
    return run.compiled(lambda x, y: [loss(x, y) for loss in losses])(scores, target)


@case("piq")
def quality(run: Run) -> Any:
    import piq

    a, b = run.put([torch.rand(1, 3, 32, 32), torch.rand(1, 3, 32, 32)])
    a.requires_grad_()

    def apply(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        loss = piq.ssim(a, b, kernel_size=5) + piq.total_variation(a) + piq.gmsd(a, b)
        return loss, piq.psnr(a, b)

    loss, ratio = run.compiled(apply)(a, b)
    return loss, torch.autograd.grad(loss, a), ratio


@case("lpips")
def perceptual(run: Run) -> Any:
    import lpips

    metric = run.put(lpips.LPIPS(net="squeeze", pretrained=False, pnet_rand=True, verbose=False))
    a, b = run.put([torch.rand(1, 3, 32, 32), torch.rand(1, 3, 32, 32)])
    return run.compiled(metric.eval())(a, b)


@case("pytorch_msssim")
def structural(run: Run) -> Any:
    from pytorch_msssim import SSIM

    a, b = run.put([torch.rand(1, 3, 24, 24), torch.rand(1, 3, 24, 24)])
    return run.compiled(run.put(SSIM(data_range=1.0, win_size=5)))(a, b)


@case("pytorch_metric_learning")
def metric_losses(run: Run) -> Any:
    from pytorch_metric_learning import losses, miners

    x, labels = run.put([torch.randn(8, 4), torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])])
    x.requires_grad_()
    miner, triplets = miners.BatchHardMiner(), losses.TripletMarginLoss()
    kinds = [losses.NTXentLoss(), losses.ContrastiveLoss()]

    def apply(x: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = triplets(x, labels, miner(x, labels))
        return loss + sum(kind(x, labels) for kind in kinds)

    loss = run.compiled(apply)(x)
    return loss, torch.autograd.grad(loss, x)


@case("vit_pytorch")
def plain_vit(run: Run) -> Any:
    from vit_pytorch import ViT

    model = ViT(
        image_size=16, patch_size=8, num_classes=4, dim=16, depth=1, heads=2, dim_head=8, mlp_dim=16
    )
    return run.train(model, [torch.randn(2, 3, 16, 16)])


@case("vit_pytorch")
def simple_vit(run: Run) -> Any:
    from vit_pytorch import SimpleViT

    model = SimpleViT(
        image_size=16, patch_size=8, num_classes=4, dim=16, depth=1, heads=2, dim_head=8, mlp_dim=16
    )
    return run.train(model, [torch.randn(2, 3, 16, 16)], steps=1)


@case("vector_quantize_pytorch")
def quantized(run: Run) -> Any:
    from vector_quantize_pytorch import VectorQuantize

    layer = run.put(VectorQuantize(dim=4, codebook_size=8, decay=0.9)).eval()
    return run.compiled(layer)(run.put(torch.randn(2, 6, 4)))


@case("denoising_diffusion_pytorch")
def diffusion(run: Run) -> Any:
    from denoising_diffusion_pytorch import Unet

    model = Unet(dim=8, dim_mults=(1, 2), flash_attn=False)
    return run.train(model, [torch.randn(1, 3, 8, 8), torch.tensor([3])], steps=1)


@case("torchio", modes=EAGER)
def volumes(run: Run) -> Any:
    import torchio

    volume = run.put(torch.rand(1, 6, 6, 6))
    image = torchio.ScalarImage(tensor=volume)
    return image.data, torchio.RescaleIntensity((0, 1))(volume.cpu())
