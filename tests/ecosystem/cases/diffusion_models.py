# SPDX-License-Identifier: Apache-2.0
"""Test cases for diffusers: networks, schedulers, pipelines, and training steps."""

from __future__ import annotations

import tempfile
from typing import Any

import torch

from tests.ecosystem.case import EAGER, Run, case


def _sample_loss(output: Any) -> torch.Tensor:
    loss: torch.Tensor = output.sample.square().mean()
    return loss


def _conditional_unet() -> Any:
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        sample_size=8, in_channels=2, out_channels=2, layers_per_block=1, norm_num_groups=2,
        block_out_channels=(4, 8), down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"), cross_attention_dim=6,
        attention_head_dim=2,
    )  # fmt: skip


def _conditional_inputs() -> dict[str, torch.Tensor]:
    return {
        "sample": torch.randn(2, 2, 8, 8),
        "timestep": torch.tensor([4, 9]),
        "encoder_hidden_states": torch.randn(2, 3, 6),
    }


@case("diffusers")
def unet_with_text(run: Run) -> Any:
    return run.train(_conditional_unet(), _conditional_inputs(), loss=_sample_loss, steps=1)


@case("diffusers")
def control_net(run: Run) -> Any:
    from diffusers import ControlNetModel

    model = ControlNetModel.from_unet(
        _conditional_unet(), conditioning_embedding_out_channels=(16, 16)
    )
    inputs = {**_conditional_inputs(), "controlnet_cond": torch.rand(2, 3, 16, 16)}
    output = run.evaluate(model, inputs)
    return output.down_block_res_samples, output.mid_block_res_sample


@case("diffusers")
def quantized_autoencoder(run: Run) -> Any:
    from diffusers import VQModel

    model = VQModel(
        block_out_channels=(4,), norm_num_groups=2, latent_channels=2, sample_size=8,
        num_vq_embeddings=8, down_block_types=("DownEncoderBlock2D",),
        up_block_types=("UpDecoderBlock2D",),
    )  # fmt: skip
    return run.evaluate(model, [torch.randn(1, 3, 8, 8)])


@case("diffusers")
def flow_transformer(run: Run) -> Any:
    from diffusers import SD3Transformer2DModel

    model = SD3Transformer2DModel(
        sample_size=8, patch_size=2, in_channels=2, num_layers=1, attention_head_dim=8,
        num_attention_heads=2, joint_attention_dim=6, caption_projection_dim=16,
        pooled_projection_dim=6, out_channels=2, pos_embed_max_size=8,
    )  # fmt: skip
    inputs = {
        "hidden_states": torch.randn(2, 2, 8, 8), "timestep": torch.tensor([4, 9]),
        "encoder_hidden_states": torch.randn(2, 3, 6), "pooled_projections": torch.randn(2, 6),
    }  # fmt: skip
    return run.train(model, inputs, loss=_sample_loss, steps=1)


@case("diffusers")
def pixart_transformer(run: Run) -> Any:
    from diffusers import PixArtTransformer2DModel

    model = PixArtTransformer2DModel(
        num_attention_heads=2, attention_head_dim=8, in_channels=2, out_channels=4, num_layers=1,
        sample_size=8, patch_size=4, cross_attention_dim=16, caption_channels=6,
        use_additional_conditions=False,
    )  # fmt: skip
    inputs = {
        "hidden_states": torch.randn(2, 2, 8, 8), "timestep": torch.tensor([4, 9]),
        "encoder_hidden_states": torch.randn(2, 3, 6),
        "added_cond_kwargs": {"resolution": None, "aspect_ratio": None},
    }  # fmt: skip
    return run.train(model, inputs, loss=_sample_loss, steps=1)


def _sampled(run: Run, scheduler: Any, steps: int = 3) -> torch.Tensor:
    """Return the sample after all steps of a scheduler, with a linear function as the network."""
    scheduler.set_timesteps(steps, device=run.device)
    sample, noise = run.put([torch.randn(1, 2, 4, 4), torch.randn(1, 2, 4, 4)])
    sample = sample * scheduler.init_noise_sigma
    for step in scheduler.timesteps:
        model_input = scheduler.scale_model_input(sample, step)
        sample = scheduler.step(model_input * 0.5 + noise * 0.1, step, sample).prev_sample
    return sample


@case("diffusers", modes=EAGER)
def multistep_schedulers(run: Run) -> Any:
    from diffusers import DEISMultistepScheduler, UniPCMultistepScheduler

    kinds = (DEISMultistepScheduler, UniPCMultistepScheduler)
    return [_sampled(run, kind(num_train_timesteps=20)) for kind in kinds]


@case("diffusers", modes=EAGER)
def second_order_schedulers(run: Run) -> Any:
    from diffusers import HeunDiscreteScheduler, KDPM2DiscreteScheduler, LMSDiscreteScheduler

    kinds = (HeunDiscreteScheduler, KDPM2DiscreteScheduler, LMSDiscreteScheduler)
    return [_sampled(run, kind(num_train_timesteps=20)) for kind in kinds]


@case("diffusers", modes=EAGER)
def flow_matching_scheduler(run: Run) -> Any:
    from diffusers import FlowMatchEulerDiscreteScheduler

    scheduler = FlowMatchEulerDiscreteScheduler(num_train_timesteps=20, shift=2.0)
    scheduler.set_timesteps(3, device=run.device)
    sample, noise = run.put([torch.randn(1, 2, 4, 4), torch.randn(1, 2, 4, 4)])
    for step in scheduler.timesteps:
        sample = scheduler.step(noise - sample * 0.5, step, sample).prev_sample
    return sample


@case("diffusers")
def training_step(run: Run) -> Any:
    from diffusers import DDPMScheduler

    scheduler = DDPMScheduler(num_train_timesteps=20, prediction_type="v_prediction")
    model = run.put(_conditional_unet())
    forward = run.compiled(model)
    inputs = run.put(_conditional_inputs())
    clean, noise = run.put([torch.randn(2, 2, 8, 8), torch.randn(2, 2, 8, 8)])
    inputs["sample"] = scheduler.add_noise(clean, noise, inputs["timestep"])
    target = scheduler.get_velocity(clean, noise, inputs["timestep"])
    loss = torch.nn.functional.mse_loss(forward(**inputs).sample, target)
    loss.backward()
    return loss, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@case("diffusers")
def pipeline(run: Run) -> Any:
    from diffusers import DDIMPipeline, DDIMScheduler, UNet2DModel

    model = UNet2DModel(
        sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, norm_num_groups=2,
        block_out_channels=(4, 8), down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    diffusion = DDIMPipeline(model, DDIMScheduler(num_train_timesteps=20)).to(run.device)
    diffusion.unet = run.compiled(diffusion.unet)
    diffusion.set_progress_bar_config(disable=True)
    # A generator on the CPU gives the same noise on all devices.
    generator = torch.Generator("cpu").manual_seed(3)
    images = diffusion(generator=generator, num_inference_steps=2, output_type="np").images
    return torch.from_numpy(images)


@case("diffusers")
def saved_model(run: Run) -> Any:
    from diffusers import UNet2DConditionModel

    model = run.put(_conditional_unet()).eval()
    with tempfile.TemporaryDirectory() as directory:
        model.save_pretrained(directory)
        loaded = UNet2DConditionModel.from_pretrained(directory).to(run.device)
    with torch.no_grad():
        return run.compiled(loaded)(**run.put(_conditional_inputs())).sample


@case("diffusers", modes=EAGER)
def averaged_weights(run: Run) -> Any:
    from diffusers.training_utils import EMAModel

    model = run.put(torch.nn.Linear(4, 3))
    average = EMAModel(model.parameters(), decay=0.9, use_ema_warmup=True)
    for _ in range(3):
        with torch.no_grad():
            model.weight.add_(0.5)
        average.step(model.parameters())
    average.copy_to(model.parameters())
    return dict(model.named_parameters())
