# SPDX-License-Identifier: Apache-2.0
"""Test cases for transformers' model families: text, images, speech and time series."""

from __future__ import annotations

from typing import Any

import torch

from tests.ecosystem.case import EAGER, Run, case

_SIZES: dict[str, Any] = {
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
}  # fmt: skip
_TEXT: dict[str, Any] = {**_SIZES, "vocab_size": 32}
_DECODER: dict[str, Any] = {
    **_TEXT, "num_key_value_heads": 1, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_IMAGE: dict[str, Any] = {**_SIZES, "image_size": 16, "patch_size": 8}
_ENCODER_DECODER: dict[str, Any] = {
    "vocab_size": 32, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 16,
    "decoder_ffn_dim": 16, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1, "dropout": 0.0,
}  # fmt: skip


def _model(family: str, head: str, **settings: Any) -> Any:
    import transformers

    return getattr(transformers, family + head)(
        getattr(transformers, family + "Config")(**settings)
    )


def _tokens() -> torch.Tensor:
    return torch.randint(3, 32, (2, 7))


def _language_model(run: Run, model: Any) -> Any:
    tokens = _tokens()
    inputs = {"input_ids": tokens, "labels": tokens}
    return run.train(model, inputs, loss=lambda output: output.loss, steps=1)


def _classifier(run: Run, model: Any, **inputs: torch.Tensor) -> Any:
    inputs["labels"] = torch.tensor([0, 1])
    return run.train(model, inputs, loss=lambda output: output.loss, steps=1)


@case("transformers")
def qwen2(run: Run) -> Any:
    return _language_model(run, _model("Qwen2", "ForCausalLM", **_DECODER))


@case("transformers")
def qwen3(run: Run) -> Any:
    return _language_model(run, _model("Qwen3", "ForCausalLM", **_DECODER, head_dim=8))


@case("transformers")
def qwen3_experts(run: Run) -> Any:
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
    return _language_model(run, _model("Qwen3Moe", "ForCausalLM", **_DECODER, **experts))


@case("transformers")
def mistral_with_a_window(run: Run) -> Any:
    return _language_model(run, _model("Mistral", "ForCausalLM", **_DECODER, sliding_window=3))


@case("transformers")
def gemma2(run: Run) -> Any:
    settings = {**_DECODER, "head_dim": 8, "query_pre_attn_scalar": 8}
    return _language_model(run, _model("Gemma2", "ForCausalLM", **settings))


@case("transformers")
def phi3(run: Run) -> Any:
    return _language_model(run, _model("Phi3", "ForCausalLM", **_DECODER))


@case("transformers")
def gpt_neox(run: Run) -> Any:
    return _language_model(run, _model("GPTNeoX", "ForCausalLM", **_TEXT))


@case("transformers")
def falcon(run: Run) -> Any:
    return _language_model(run, _model("Falcon", "ForCausalLM", **_TEXT, alibi=True))


@case("transformers")
def bloom(run: Run) -> Any:
    settings = {"hidden_size": 16, "n_layer": 1, "n_head": 2, "vocab_size": 32}
    return _language_model(run, _model("Bloom", "ForCausalLM", **settings))


@case("transformers")
def opt(run: Run) -> Any:
    settings = {**_TEXT, "ffn_dim": 16, "word_embed_proj_dim": 16, "dropout": 0.0}
    return _language_model(run, _model("OPT", "ForCausalLM", **settings))


@case("transformers")
def state_space_mamba(run: Run) -> Any:
    settings = {"vocab_size": 32, "hidden_size": 8, "num_hidden_layers": 1, "state_size": 4}
    return _language_model(run, _model("Mamba", "ForCausalLM", **settings))


@case("transformers")
def state_space_mamba2(run: Run) -> Any:
    settings = {
        "vocab_size": 32, "hidden_size": 8, "num_hidden_layers": 1, "state_size": 4,
        "num_heads": 4, "head_dim": 4, "n_groups": 1, "chunk_size": 4, "pad_token_id": 0,
    }  # fmt: skip
    return _language_model(run, _model("Mamba2", "ForCausalLM", **settings))


@case("transformers")
def deepseek_v3(run: Run) -> Any:
    settings = {
        **_DECODER, "num_key_value_heads": 2, "moe_intermediate_size": 8, "n_routed_experts": 4,
        "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 0,
        "kv_lora_rank": 4, "q_lora_rank": 4, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4,
        "v_head_dim": 8,
    }  # fmt: skip
    return _language_model(run, _model("DeepseekV3", "ForCausalLM", **settings))


@case("transformers")
def roberta(run: Run) -> Any:
    model = _model("Roberta", "ForSequenceClassification", **_TEXT)
    return _classifier(run, model, input_ids=_tokens())


@case("transformers")
def distilbert(run: Run) -> Any:
    model = _model(
        "DistilBert", "ForSequenceClassification", vocab_size=32, dim=16, n_layers=1, n_heads=2,
        hidden_dim=16,
    )  # fmt: skip
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[1, 4:] = 0
    return _classifier(run, model, input_ids=_tokens(), attention_mask=mask)


@case("transformers")
def albert_answers(run: Run) -> Any:
    model = _model("Albert", "ForQuestionAnswering", **_TEXT, embedding_size=8)
    inputs = {"input_ids": _tokens()}
    for name in ("start_positions", "end_positions"):
        inputs[name] = torch.tensor([1, 4])
    return run.train(model, inputs, loss=lambda output: output.loss, steps=1)


@case("transformers")
def electra_tags(run: Run) -> Any:
    model = _model("Electra", "ForTokenClassification", **_TEXT, embedding_size=8, num_labels=3)
    inputs = {"input_ids": _tokens(), "labels": torch.randint(0, 3, (2, 7))}
    return run.train(model, inputs, loss=lambda output: output.loss, steps=1)


@case("transformers")
def deberta_v2(run: Run) -> Any:
    model = _model(
        "DebertaV2", "ForMaskedLM", **_TEXT, relative_attention=True, pos_att_type=["p2c", "c2p"]
    )
    return _language_model(run, model)


@case("transformers")
def modern_bert(run: Run) -> Any:
    settings = {**_TEXT, "num_hidden_layers": 2, "local_attention": 4, "pad_token_id": 0}
    settings |= {"bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
    return _language_model(run, _model("ModernBert", "ForMaskedLM", **settings))


@case("transformers")
def xlnet(run: Run) -> Any:
    model = _model(
        "XLNet", "LMHeadModel", vocab_size=32, d_model=16, n_layer=1, n_head=2, d_inner=16
    )
    return _language_model(run, model)


@case("transformers")
def bart(run: Run) -> Any:
    return _language_model(run, _model("Bart", "ForConditionalGeneration", **_ENCODER_DECODER))


@case("transformers", modes=EAGER)
def translated_with_beams(run: Run) -> Any:
    settings = {**_ENCODER_DECODER, "forced_eos_token_id": None}
    model = run.put(_model("Marian", "MTModel", **settings)).eval()
    return model.generate(run.put(_tokens()), max_new_tokens=4, num_beams=2, do_sample=False)


@case("transformers")
def static_cache(run: Run) -> Any:
    settings = {**_DECODER, "eos_token_id": None}
    model = run.put(_model("Qwen2", "ForCausalLM", **settings)).eval()
    model.forward = run.compiled(model.forward)
    # Without this setting, transformers compiles a step of decoding on some devices.
    return model.generate(
        run.put(_tokens()), max_new_tokens=4, do_sample=False, cache_implementation="static",
        disable_compile=True,
    )  # fmt: skip


@case("transformers")
def whisper(run: Run) -> Any:
    settings = {**_ENCODER_DECODER, "num_mel_bins": 8, "max_source_positions": 10}
    model = _model("Whisper", "ForConditionalGeneration", **settings, max_target_positions=16)
    inputs = {"input_features": torch.randn(2, 8, 20), "labels": _tokens()}
    return run.train(model, inputs, loss=lambda output: output.loss, steps=1)


_SPEECH: dict[str, Any] = {
    **_TEXT, "conv_dim": (8, 8), "conv_stride": (4, 4), "conv_kernel": (8, 4),
    "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
    "mask_time_prob": 0.0, "layerdrop": 0.0, "ctc_loss_reduction": "mean",
    "attention_dropout": 0.0, "apply_spec_augment": False,
}  # fmt: skip


@case("transformers")
def wav2vec2(run: Run) -> Any:
    inputs = {"input_values": torch.randn(2, 400), "labels": torch.randint(1, 32, (2, 4))}
    model = _model("Wav2Vec2", "ForCTC", **_SPEECH)
    return run.train(model, inputs, loss=lambda output: output.loss, steps=1)


@case("transformers")
def hubert(run: Run) -> Any:
    return run.evaluate(_model("Hubert", "Model", **_SPEECH), [torch.randn(2, 400)])


@case("transformers")
def spectrogram_transformer(run: Run) -> Any:
    settings = {**_SIZES, "num_mel_bins": 16, "max_length": 24, "patch_size": 8}
    settings |= {"frequency_stride": 8, "time_stride": 8}
    model = _model("AST", "ForAudioClassification", **settings)
    return _classifier(run, model, input_values=torch.randn(2, 24, 16))


@case("transformers")
def clip_model(run: Run) -> Any:
    text = {**_TEXT, "max_position_embeddings": 8, "eos_token_id": 2}
    model = _model("CLIP", "Model", text_config=text, vision_config=_IMAGE, projection_dim=8)
    inputs = {"input_ids": _tokens(), "pixel_values": torch.randn(2, 3, 16, 16)}
    inputs["return_loss"] = torch.tensor(True)
    return run.train(model, inputs, loss=lambda output: output.loss, steps=1)


@case("transformers")
def siglip(run: Run) -> Any:
    text = {**_TEXT, "max_position_embeddings": 8, "projection_size": 16}
    model = _model("Siglip", "Model", text_config=text, vision_config=_IMAGE)
    inputs = {"input_ids": _tokens(), "pixel_values": torch.randn(2, 3, 16, 16)}
    return run.evaluate(model, inputs)


@case("transformers")
def dinov2(run: Run) -> Any:
    settings = {**_IMAGE, "mlp_ratio": 2}
    settings.pop("intermediate_size")
    return run.train(_model("Dinov2", "Model", **settings), [torch.randn(2, 3, 16, 16)], steps=1)


@case("transformers")
def deit(run: Run) -> Any:
    model = _model("DeiT", "ForImageClassification", **_IMAGE)
    return _classifier(run, model, pixel_values=torch.randn(2, 3, 16, 16))


@case("transformers")
def beit(run: Run) -> Any:
    model = _model("Beit", "ForImageClassification", **_IMAGE, drop_path_rate=0.0)
    return _classifier(run, model, pixel_values=torch.randn(2, 3, 16, 16))


@case("transformers")
def segformer(run: Run) -> Any:
    model = _model(
        "Segformer", "ForSemanticSegmentation", num_encoder_blocks=2, depths=[1, 1],
        sr_ratios=[2, 1], hidden_sizes=[8, 8], patch_sizes=[7, 3], strides=[4, 2],
        num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=8, drop_path_rate=0.0,
        num_labels=3,
    )  # fmt: skip
    inputs = {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.randint(0, 3, (2, 32, 32))}
    return run.train(model, inputs, loss=lambda output: output.loss, steps=1)


@case("transformers")
def masked_video(run: Run) -> Any:
    model = _model("VideoMAE", "ForVideoClassification", **_IMAGE, num_frames=4, tubelet_size=2)
    return _classifier(run, model, pixel_values=torch.randn(2, 4, 3, 16, 16))


@case("transformers")
def llava(run: Run) -> Any:
    from transformers import CLIPVisionConfig, LlamaConfig

    vision = CLIPVisionConfig(**{**_IMAGE, "num_hidden_layers": 2})
    model = _model(
        "Llava", "ForConditionalGeneration", vision_config=vision,
        text_config=LlamaConfig(**_DECODER), image_token_index=31, image_seq_length=4,
    )  # fmt: skip
    # Compiled models return zeros, not None, as the gradients of the tower's last, unused layer.
    model.model.vision_tower.requires_grad_(False)
    tokens = torch.randint(3, 30, (2, 9))
    tokens[:, 1:5] = 31
    inputs = {"input_ids": tokens, "pixel_values": torch.randn(2, 3, 16, 16), "labels": tokens}
    return run.train(model, inputs, loss=lambda output: output.loss, steps=1)


@case("transformers")
def time_series_patches(run: Run) -> Any:
    model = _model(
        "PatchTST", "ForPrediction", num_input_channels=2, context_length=16, patch_length=4,
        patch_stride=4, d_model=16, num_hidden_layers=1, num_attention_heads=2, ffn_dim=16,
        prediction_length=4, loss="mse", use_cls_token=False,
    )  # fmt: skip
    inputs = {"past_values": torch.randn(2, 16, 2), "future_values": torch.randn(2, 4, 2)}
    return run.train(model, inputs, loss=lambda output: output.loss, steps=1)


@case("transformers")
def adafactor(run: Run) -> Any:
    from transformers.optimization import Adafactor

    model, inputs = run.put([torch.nn.Linear(8, 4), torch.randn(5, 8)])
    optimizer = Adafactor(model.parameters(), lr=1e-3, relative_step=False, scale_parameter=False)
    step = run.compiled(optimizer.step)
    for _ in range(2):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        step()
    return dict(model.named_parameters())


@case("transformers", modes=EAGER)
def warmup_schedule(run: Run) -> Any:
    from transformers import get_cosine_schedule_with_warmup

    model = run.put(torch.nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    schedule = get_cosine_schedule_with_warmup(optimizer, 1, 4)
    inputs = run.put(torch.randn(3, 4))
    for _ in range(3):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        schedule.step()
    return dict(model.named_parameters()), schedule.get_last_lr()
