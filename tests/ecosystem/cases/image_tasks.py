# SPDX-License-Identifier: Apache-2.0
"""Test cases for segmentation, detection, codebooks, image quality and image-text models."""

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


@case("monai")
def swin_unetr(run: Run) -> Any:
    from monai.networks.nets import SwinUNETR

    model = SwinUNETR(
        in_channels=1, out_channels=2, feature_size=12, depths=(1, 1, 1, 1), spatial_dims=2,
        num_heads=(1, 1, 1, 1),
    )  # fmt: skip
    return run.evaluate(model, [torch.randn(1, 1, 64, 64)])


@case("monai")
def residual_network(run: Run) -> Any:
    from monai.networks.nets import SegResNet

    model = SegResNet(
        spatial_dims=3,
        init_filters=8,
        in_channels=1,
        out_channels=2,
        blocks_down=(1, 1),
        blocks_up=(1,),
    )
    return run.train(model, [torch.randn(1, 1, 8, 8, 8)], steps=1)


@case("monai")
def medical_metrics(run: Run) -> Any:
    from monai.metrics import DiceMetric, MeanIoU, compute_roc_auc
    from monai.networks.utils import one_hot

    labels = run.put([torch.randint(0, 2, (2, 1, 6, 6)) for _ in range(2)])
    a, b = (one_hot(label, 2) for label in labels)
    scores, target = run.put([torch.rand(12), torch.randint(0, 2, (12,))])
    dice, overlap = run.compiled(DiceMetric()), run.compiled(MeanIoU())
    return dice(a, b), overlap(a, b), compute_roc_auc(scores, target)


@case("monai")
def sliding_window(run: Run) -> Any:
    from monai.inferers import sliding_window_inference

    layer = run.compiled(run.put(torch.nn.Conv2d(1, 2, 3, padding=1)))
    image = run.put(torch.randn(1, 1, 12, 12))
    with torch.no_grad():
        return sliding_window_inference(image, (8, 8), 2, layer, overlap=0.5, mode="gaussian")


@case("monai", modes=EAGER)
def volume_transforms(run: Run) -> Any:
    from monai import transforms

    volume = run.put(torch.rand(1, 8, 8, 8))
    steps = [
        transforms.ScaleIntensity(), transforms.Resize((6, 6, 6)), transforms.Flip(0),
        transforms.NormalizeIntensity(), transforms.GaussianSmooth(1.0), transforms.SpatialPad(8),
    ]  # fmt: skip
    return transforms.Compose(steps)(volume).as_tensor()


@case("monai")
def registration_losses(run: Run) -> Any:
    from monai.losses import (
        BendingEnergyLoss,
        LocalNormalizedCrossCorrelationLoss,
        SSIMLoss,
        TverskyLoss,
    )

    a, b = run.put([torch.rand(1, 1, 12, 12), torch.rand(1, 1, 12, 12)])
    a.requires_grad_()
    kinds = [
        LocalNormalizedCrossCorrelationLoss(spatial_dims=2), SSIMLoss(spatial_dims=2), TverskyLoss()
    ]  # fmt: skip
    energy = BendingEnergyLoss()

    def apply(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        return [*(kind(a, b) for kind in kinds), energy(a.repeat(1, 2, 1, 1))]

    values = run.compiled(apply)(a, b)
    return values, torch.autograd.grad(sum(values), a)


def _segmented(run: Run, kind: str, **settings: Any) -> Any:
    import segmentation_models_pytorch as smp

    model = getattr(smp, kind)(
        "timm-mobilenetv3_small_minimal_100", encoder_weights=None, classes=2, **settings
    )
    return run.evaluate(model, [torch.randn(_LARGE_IMAGES)])


@case("segmentation_models_pytorch")
def fpn(run: Run) -> Any:
    return _segmented(run, "FPN", decoder_pyramid_channels=8, decoder_segmentation_channels=32)


@case("segmentation_models_pytorch")
def link_net(run: Run) -> Any:
    return _segmented(run, "Linknet", encoder_depth=3)


@case("segmentation_models_pytorch")
def segmentation_losses(run: Run) -> Any:
    from segmentation_models_pytorch import losses

    scores, target = run.put([torch.randn(2, 3, 6, 6), torch.randint(0, 3, (2, 6, 6))])
    scores.requires_grad_()
    kinds = [
        losses.JaccardLoss("multiclass"), losses.TverskyLoss("multiclass"),
        losses.LovaszLoss("multiclass"), losses.SoftCrossEntropyLoss(smooth_factor=0.1),
    ]  # fmt: skip
    values = run.compiled(lambda scores: [kind(scores, target) for kind in kinds])(scores)
    return values, torch.autograd.grad(sum(values), scores)


@case("segmentation_models_pytorch")
def segmentation_metrics(run: Run) -> Any:
    from segmentation_models_pytorch import metrics

    a, b = run.put([torch.randint(0, 3, (2, 6, 6)), torch.randint(0, 3, (2, 6, 6))])
    # Not get_stats: AOTAutograd cannot trace inference mode, on any device.
    counts = metrics.get_stats(a, b, mode="multiclass", num_classes=3)
    kinds = (metrics.iou_score, metrics.f1_score, metrics.balanced_accuracy)
    return counts, [run.compiled(kind)(*counts, reduction="macro") for kind in kinds]


@case("ultralytics")
def attention_blocks(run: Run) -> Any:
    from ultralytics.nn.modules import C2PSA, C3k2, Conv, DWConv

    model = torch.nn.Sequential(
        Conv(3, 8, 3, 4), C3k2(8, 8, 1), DWConv(8, 128, 3), C2PSA(128, 128, 1)
    )
    return run.evaluate(model, [torch.randn(_IMAGES)])


@case("ultralytics", modes=EAGER)
def suppressed_boxes(run: Run) -> Any:
    from ultralytics.utils.nms import non_max_suppression
    from ultralytics.utils.ops import xywh2xyxy, xyxy2xywh

    boxes = _boxes(20)
    predicted = torch.cat([xyxy2xywh(boxes), torch.rand(20, 3)], 1).t()[None]
    kept = non_max_suppression(run.put(predicted), conf_thres=0.3, iou_thres=0.5)
    return kept, xywh2xyxy(run.put(boxes))


@case("vit_pytorch")
def convolutional_transformer(run: Run) -> Any:
    from vit_pytorch.cct import CCT

    model = CCT(
        img_size=16, embedding_dim=16, n_conv_layers=1, kernel_size=3, stride=2, padding=1,
        num_layers=1, num_heads=2, mlp_ratio=1.0, num_classes=4, stochastic_depth_rate=0.0,
    )  # fmt: skip
    return run.train(model, [torch.randn(2, 3, 16, 16)], steps=1)


@case("vit_pytorch")
def cross_attention_scales(run: Run) -> Any:
    from vit_pytorch.cross_vit import CrossViT

    model = CrossViT(
        image_size=16, num_classes=4, depth=1, sm_dim=8, lg_dim=16, sm_patch_size=4,
        lg_patch_size=8, sm_enc_depth=1, sm_enc_heads=2, sm_enc_mlp_dim=16, sm_enc_dim_head=8,
        lg_enc_depth=1, lg_enc_heads=2, lg_enc_mlp_dim=16, lg_enc_dim_head=8,
        cross_attn_depth=1, cross_attn_heads=2, cross_attn_dim_head=8,
    )  # fmt: skip
    return run.train(model, [torch.randn(2, 3, 16, 16)], steps=1)


@case("vit_pytorch")
def distilled_vit(run: Run) -> Any:
    from vit_pytorch.distill import DistillableViT, DistillWrapper

    student = DistillableViT(
        image_size=16, patch_size=8, num_classes=4, dim=16, depth=1, heads=2, dim_head=8, mlp_dim=16
    )
    teacher = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(768, 4))
    model = run.put(DistillWrapper(student=student, teacher=teacher, temperature=3, alpha=0.5))
    loss = run.compiled(model)(*run.put([torch.randn(2, 3, 16, 16), torch.tensor([1, 3])]))
    loss.backward()
    return loss, {name: p.grad for name, p in student.named_parameters()}


@case("vector_quantize_pytorch")
def residual_codes(run: Run) -> Any:
    from vector_quantize_pytorch import ResidualVQ

    layer = run.put(ResidualVQ(dim=4, num_quantizers=2, codebook_size=8)).eval()
    values, indices, losses = run.compiled(layer)(run.put(torch.randn(2, 6, 4)))
    return values, indices, losses, layer.get_output_from_indices(indices)


@case("vector_quantize_pytorch")
def finite_scalars(run: Run) -> Any:
    from vector_quantize_pytorch import FSQ

    return run.train(
        FSQ(levels=[5, 4, 3], dim=4),
        [torch.randn(2, 6, 4)],
        steps=1,
        loss=lambda output: output[0].square().mean(),
    )


@case("vector_quantize_pytorch")
def lookup_free(run: Run) -> Any:
    from vector_quantize_pytorch import LFQ

    layer = run.put(LFQ(codebook_size=8, dim=3, entropy_loss_weight=0.1)).train()
    x = run.put(torch.randn(2, 6, 3)).requires_grad_()
    values, indices, loss = run.compiled(layer)(x)
    return values, indices, loss, torch.autograd.grad(loss, x)


@case("denoising_diffusion_pytorch")
def denoising_loss(run: Run) -> Any:
    from denoising_diffusion_pytorch import GaussianDiffusion, Unet

    network = Unet(dim=8, dim_mults=(1, 2), flash_attn=False)
    model = run.put(GaussianDiffusion(network, image_size=8, timesteps=10, sampling_timesteps=2))
    images, noise = run.put([torch.rand(2, 3, 8, 8), torch.randn(2, 3, 8, 8)])
    times = run.put(torch.tensor([2, 7]))
    loss = run.compiled(model.p_losses)(images, times, noise=noise)
    loss.backward()
    return (
        loss,
        run.compiled(model.q_sample)(images, times, noise),
        run.compiled(model.predict_noise_from_start)(images, times, noise),
    )


@case("torchio")
def volume_patches(run: Run) -> Any:
    import torchio

    subject = torchio.Subject(
        image=torchio.ScalarImage(tensor=torch.rand(1, 8, 8, 8)),
        label=torchio.LabelMap(tensor=torch.randint(0, 2, (1, 8, 8, 8))),
    )
    sampler = torchio.GridSampler(subject, 4, 0)
    aggregator = torchio.GridAggregator(sampler)
    layer = run.compiled(run.put(torch.nn.Conv3d(1, 2, 1)))
    for batch in torchio.SubjectsLoader(sampler, batch_size=4):
        output = layer(run.put(batch["image"][torchio.DATA]))
        aggregator.add_batch(output.detach().cpu(), batch[torchio.LOCATION])
    return aggregator.get_output_tensor()


@case("lpips")
def perceptual_gradient(run: Run) -> Any:
    import lpips

    metric = lpips.LPIPS(net="alex", pretrained=False, pnet_rand=True, spatial=True, verbose=False)
    metric = run.put(metric).eval()
    a, b = run.put([torch.rand(1, 3, 64, 64), torch.rand(1, 3, 64, 64)])
    a.requires_grad_()
    distance = run.compiled(metric)(a, b)
    return distance, torch.autograd.grad(distance.mean(), a)


@case("piq")
def similarity_indices(run: Run) -> Any:
    import piq

    a, b = run.put([torch.rand(1, 3, 64, 64), torch.rand(1, 3, 64, 64)])
    kinds = (piq.fsim, piq.vsi, piq.vif_p, piq.mdsi, piq.haarpsi, piq.srsim)
    return [run.compiled(kind)(a, b, data_range=1.0) for kind in kinds]


@case("pytorch_msssim")
def several_scales(run: Run) -> Any:
    from pytorch_msssim import ms_ssim

    a, b = run.put([torch.rand(1, 3, 40, 40), torch.rand(1, 3, 40, 40)])
    a.requires_grad_()
    score = run.compiled(ms_ssim)
    value = score(a, b, data_range=1.0, win_size=3, weights=[0.4, 0.3, 0.3])
    return value, torch.autograd.grad(value, a)


@case("open_clip_torch")
def coca(run: Run) -> Any:
    from open_clip.coca_model import CoCa, MultimodalCfg
    from open_clip.model import CLIPTextCfg, CLIPVisionCfg

    model = CoCa(
        16,
        MultimodalCfg(context_length=6, vocab_size=32, width=16, heads=2, layers=1),
        CLIPTextCfg(context_length=6, vocab_size=32, width=16, heads=2, layers=1, embed_cls=True,
                    output_tokens=True),
        CLIPVisionCfg(layers=1, width=16, head_width=8, image_size=16, patch_size=8,
                      attentional_pool=True, attn_pooler_heads=2, output_tokens=True),
    )  # fmt: skip
    # The library leaves some weights uninitialized.
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return run.evaluate(model, [torch.randn(2, 3, 16, 16), torch.randint(1, 32, (2, 6))])


@case("open_clip_torch")
def sigmoid_loss(run: Run) -> Any:
    from open_clip.loss import SigLipLoss

    features = [torch.nn.functional.normalize(torch.randn(4, 8), dim=1) for _ in range(2)]
    a, b = run.put(features)
    scale, bias = run.put([torch.tensor(10.0), torch.tensor(-10.0)])
    a.requires_grad_()
    loss = run.compiled(SigLipLoss())(a, b, scale, bias)
    return loss, torch.autograd.grad(loss, a)
