# SPDX-License-Identifier: Apache-2.0
"""Test cases for diffusion models, quantized weights, and training LLMs from feedback."""

from __future__ import annotations

from typing import Any

import torch

from tests.ecosystem.case import EAGER, Run, case


@case("diffusers")
def diffusers_unet(run: Run) -> Any:
    from diffusers import UNet2DModel

    model = UNet2DModel(
        sample_size=8, in_channels=2, out_channels=2, layers_per_block=1, norm_num_groups=2,
        block_out_channels=(4, 8), down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=4,
    )  # fmt: skip
    inputs = {"sample": torch.randn(1, 2, 8, 8), "timestep": torch.tensor([4])}
    return run.train(model, inputs, loss=lambda output: output.sample.square().mean(), steps=1)


@case("diffusers")
def autoencoder(run: Run) -> Any:
    from diffusers import AutoencoderKL

    model = AutoencoderKL(
        block_out_channels=(4,), norm_num_groups=2, latent_channels=2, sample_size=8,
        down_block_types=("DownEncoderBlock2D",), up_block_types=("UpDecoderBlock2D",),
    )  # fmt: skip
    return run.train(
        model, [torch.randn(1, 3, 8, 8)], loss=lambda out: out.sample.square().mean(), steps=1
    )


@case("diffusers")
def image_transformer(run: Run) -> Any:
    from diffusers import DiTTransformer2DModel

    model = DiTTransformer2DModel(
        num_attention_heads=2, attention_head_dim=8, in_channels=2, num_layers=1, sample_size=8,
        patch_size=4, num_embeds_ada_norm=10, norm_num_groups=2,
    )  # fmt: skip
    inputs = {
        "hidden_states": torch.randn(1, 2, 8, 8),
        "timestep": torch.tensor([3]),
        "class_labels": torch.tensor([1]),
    }
    return run.evaluate(model, inputs)


@case("diffusers", modes=EAGER)
def schedulers(run: Run) -> Any:
    from diffusers import DDIMScheduler, DPMSolverMultistepScheduler, EulerDiscreteScheduler

    results = []
    for kind in (DDIMScheduler, EulerDiscreteScheduler, DPMSolverMultistepScheduler):
        scheduler = kind(num_train_timesteps=20)
        scheduler.set_timesteps(3, device=run.device)
        sample, noise = run.put([torch.randn(1, 2, 4, 4), torch.randn(1, 2, 4, 4)])
        for step in scheduler.timesteps:
            model_input = scheduler.scale_model_input(sample, step)
            sample = scheduler.step(model_input * 0.5 + noise * 0.1, step, sample).prev_sample
        results.append(sample)
    return results


# The scale of each row of weights places the row's largest weight halfway between two integers, so
# the last bit of the scale decides how that weight is rounded. To divide by a constant, XLA
# multiplies by its reciprocal, as CUDA does, so this bit may differ from the CPU's. The tolerance
# is one quantization step of a weight, times an input.
@case("torchao", atol=5e-3)
def int8_weights(run: Run) -> Any:
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    model = torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))
    model = run.put(model).eval()
    quantize_(model, Int8WeightOnlyConfig())
    with torch.no_grad():
        return run.compiled(model)(run.put(torch.randn(3, 32)))


@case("torchao")
def fake_quantized(run: Run) -> Any:
    from torchao.quantization.quant_primitives import (
        MappingType,
        choose_qparams_affine,
        dequantize_affine,
        quantize_affine,
    )

    def apply(x: torch.Tensor) -> Any:
        scale, zero = choose_qparams_affine(x, MappingType.ASYMMETRIC, (1, 8), torch.int8)
        stored = quantize_affine(x, (1, 8), scale, zero, torch.int8)
        restored = dequantize_affine(stored, (1, 8), scale, zero, torch.int8)
        return scale, zero, (restored - x).abs() <= scale.repeat_interleave(8, 1)

    return run.compiled(apply)(run.put(torch.randn(4, 16)))


# The library compiles the steps of this optimizer, in each mode.
@case("torchao", modes=EAGER)
def small_optimizer(run: Run) -> Any:
    from torchao.optim import _AdamW

    return run.train(
        torch.nn.Linear(8, 4), [torch.randn(5, 8)],
        optimizer=lambda p: _AdamW(list(p), lr=torch.tensor(1e-2), bf16_stochastic_round=False),
    )  # fmt: skip


@case("trl")
def selected_log_softmax(run: Run) -> Any:
    from trl.trainer.utils import entropy_from_logits, selective_log_softmax

    logits, tokens = run.put([torch.randn(2, 5, 7), torch.randint(0, 7, (2, 5))])

    def apply(logits: torch.Tensor, tokens: torch.Tensor) -> Any:
        return selective_log_softmax(logits, tokens), entropy_from_logits(logits)

    return run.compiled(apply)(logits, tokens)
