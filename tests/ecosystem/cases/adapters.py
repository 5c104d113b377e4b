# SPDX-License-Identifier: Apache-2.0
"""Test cases for libraries that adapt and extend language models: peft, trl, torchao and others."""

from __future__ import annotations

import tempfile
from typing import Any

import torch

from tests.ecosystem.case import EAGER, Run, case


def _llama(**settings: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            hidden_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=32,
            intermediate_size=32, num_key_value_heads=1, **settings,
        )
    )  # fmt: skip


def _tokens() -> torch.Tensor:
    return torch.randint(3, 32, (2, 7))


def _adapted(run: Run, kind: str, **settings: Any) -> Any:
    """Train a language model with an adapter of peft."""
    import peft

    model = peft.get_peft_model(_llama(), getattr(peft, kind)(task_type="CAUSAL_LM", **settings))
    tokens = _tokens()
    inputs = {"input_ids": tokens, "labels": tokens}
    return run.train(model, inputs, loss=lambda output: output.loss, steps=1)


@case("peft")
def dora(run: Run) -> Any:
    return _adapted(run, "LoraConfig", r=2, target_modules=["q_proj"], use_dora=True)


@case("peft")
def rank_stabilized_lora(run: Run) -> Any:
    return _adapted(
        run, "LoraConfig", r=2, use_rslora=True, target_modules="all-linear",
        modules_to_save=["lm_head"],
    )  # fmt: skip


@case("peft")
def adalora(run: Run) -> Any:
    return _adapted(
        run, "AdaLoraConfig", init_r=2, target_r=1, total_step=10, target_modules=["q_proj"]
    )


@case("peft")
def loha(run: Run) -> Any:
    return _adapted(run, "LoHaConfig", r=2, target_modules=["q_proj", "v_proj"])


@case("peft")
def lokr(run: Run) -> Any:
    return _adapted(run, "LoKrConfig", r=2, target_modules=["q_proj", "v_proj"])


@case("peft")
def orthogonal_finetuning(run: Run) -> Any:
    return _adapted(run, "OFTConfig", oft_block_size=4, target_modules=["q_proj"])


@case("peft")
def householder_adaptation(run: Run) -> Any:
    return _adapted(run, "HRAConfig", r=2, target_modules=["q_proj"])


@case("peft")
def vera(run: Run) -> Any:
    return _adapted(run, "VeraConfig", r=2, target_modules=["q_proj"])


@case("peft")
def prompt_tuning(run: Run) -> Any:
    return _adapted(run, "PromptTuningConfig", num_virtual_tokens=3)


@case("peft")
def prefix_tuning(run: Run) -> Any:
    return _adapted(run, "PrefixTuningConfig", num_virtual_tokens=3)


@case("peft")
def saved_adapter(run: Run) -> Any:
    import peft

    settings = peft.LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    base = _llama()
    state = {name: value.clone() for name, value in base.state_dict().items()}
    model = run.put(peft.get_peft_model(base, settings))
    other = _llama()
    other.load_state_dict(state)
    with tempfile.TemporaryDirectory() as directory:
        model.save_pretrained(directory)
        loaded = peft.PeftModel.from_pretrained(run.put(other), directory)
    tokens = run.put(_tokens())
    model, forward = run.compiled(model), run.compiled(loaded)
    with loaded.disable_adapter():
        plain = forward(tokens).logits
    return model(tokens).logits, forward(tokens).logits, plain


@case("peft")
def several_adapters(run: Run) -> Any:
    import peft

    settings = peft.LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    model: Any = peft.get_peft_model(_llama(), settings, adapter_name="a")
    model.add_adapter("b", settings)
    model = run.put(model)
    model.add_weighted_adapter(["a", "b"], [0.7, 0.3], "both", combination_type="linear")
    results = []
    compiled = run.compiled(model)
    for name in ("a", "b", "both"):
        model.set_adapter(name)
        results.append(compiled(run.put(_tokens())).logits)
    return results


@case("trl")
def preference_step(run: Run) -> Any:
    from trl.trainer.utils import pad, selective_log_softmax

    # The loss of direct preference optimization, with TRL's functions for its parts.
    model, reference = run.put([_llama(), _llama()])
    sequences = [torch.randint(3, 32, (length,)) for length in (7, 5, 6, 4)]
    tokens = run.put(pad(sequences, padding_value=0, padding_side="right"))
    mask = (tokens != 0)[:, 1:]

    def likelihood(network: Any) -> torch.Tensor:
        logits = network(tokens).logits[:, :-1]
        return (selective_log_softmax(logits, tokens[:, 1:]) * mask).sum(1)

    def preference() -> torch.Tensor:
        with torch.no_grad():
            base = likelihood(reference)
        margin = likelihood(model) - base
        return -torch.nn.functional.logsigmoid(0.1 * (margin[:2] - margin[2:])).mean()

    loss = run.compiled(preference)()
    loss.backward()
    return loss, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@case("torchao")
def quantization_aware_training(run: Run) -> Any:
    from torchao.quantization.qat import FakeQuantizedLinear, IntxFakeQuantizeConfig

    # With a symmetric range, the last bit of the scale decides how the largest weight is rounded.
    weights = IntxFakeQuantizeConfig(torch.int4, group_size=8, is_symmetric=False)
    layer = FakeQuantizedLinear(16, 4, bias=False, weight_config=weights)
    return run.train(layer, [torch.randn(3, 16)], steps=1)


@case("sentence_transformers")
def pooling_modes(run: Run) -> Any:
    from sentence_transformers.sentence_transformer.modules import Pooling

    features = {
        "token_embeddings": torch.randn(2, 5, 8),
        "attention_mask": torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]),
    }
    modes = ("cls", "max", "lasttoken", "weightedmean", "mean_sqrt_len_tokens")
    layers = [run.compiled(Pooling(8, pooling_mode=mode)) for mode in modes]
    return [layer(run.put(dict(features)))["sentence_embedding"] for layer in layers]


@case("sentence_transformers")
def dense_and_normalized(run: Run) -> Any:
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize

    layers = run.put(torch.nn.Sequential(Dense(8, 4), Normalize()))
    features = {"sentence_embedding": run.put(torch.randn(3, 8))}
    output = run.compiled(layers)(features)["sentence_embedding"]
    output[:, 0].sum().backward()
    return output, {name: p.grad for name, p in layers.named_parameters()}


@case("sentence_transformers")
def pairwise_scores(run: Run) -> Any:
    from sentence_transformers import util

    a, b = run.put([torch.randn(4, 8), torch.randn(4, 8)])

    def apply(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        return [
            util.pairwise_cos_sim(a, b), util.pairwise_dot_score(a, b), util.euclidean_sim(a, b),
            util.manhattan_sim(a, b), util.normalize_embeddings(a),
        ]  # fmt: skip

    return run.compiled(apply)(a, b)


@case("sentence_transformers", modes=EAGER)
def communities(run: Run) -> Any:
    from sentence_transformers import util

    centers = torch.randn(3, 8)
    points = (centers[:, None] + 0.05 * torch.randn(3, 4, 8)).reshape(12, 8)
    groups = util.community_detection(run.put(points), threshold=0.8, min_community_size=2)
    return torch.tensor(sorted(sorted(group) for group in groups))


@case("x_transformers")
def grouped_query_attention(run: Run) -> Any:
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(
        dim=16, depth=1, heads=4, attn_dim_head=4, attn_kv_heads=2, attn_qk_norm=True, ff_glu=True,
        alibi_pos_bias=True,
    )  # fmt: skip
    model = TransformerWrapper(num_tokens=32, max_seq_len=8, attn_layers=layers)
    return run.train(model, [_tokens()], steps=1)


@case("x_transformers")
def encoder_and_decoder(run: Run) -> Any:
    from x_transformers import XTransformer

    part = {"num_tokens": 32, "depth": 1, "heads": 2, "max_seq_len": 8, "attn_dim_head": 8}
    settings = {f"{side}_{key}": value for side in ("enc", "dec") for key, value in part.items()}
    return run.train(XTransformer(dim=16, **settings), [_tokens(), _tokens()], steps=1)


@case("x_transformers")
def autoregressive_wrapper(run: Run) -> Any:
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(dim=16, depth=1, heads=2, attn_dim_head=8)
    model = AutoregressiveWrapper(
        TransformerWrapper(num_tokens=32, max_seq_len=12, attn_layers=layers)
    )
    model = run.put(model)
    tokens = run.put(_tokens())
    loss = run.compiled(model)(tokens)
    loss.backward()
    return loss, model.generate(tokens, 4, temperature=0.0)


@case("x_transformers")
def vision_wrapper(run: Run) -> Any:
    from x_transformers import Encoder, ViTransformerWrapper

    model = ViTransformerWrapper(
        image_size=16, patch_size=8, num_classes=3,
        attn_layers=Encoder(dim=16, depth=1, heads=2, attn_dim_head=8),
    )  # fmt: skip
    return run.train(model, [torch.randn(2, 3, 16, 16)], steps=1)


@case("rotary_embedding_torch")
def image_axes(run: Run) -> Any:
    from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

    layer = run.put(RotaryEmbedding(dim=4, freqs_for="pixel", max_freq=8))

    def apply(x: torch.Tensor) -> torch.Tensor:
        return apply_rotary_emb(layer.get_axial_freqs(3, 4), x)

    return run.compiled(apply)(run.put(torch.randn(1, 3, 4, 8)))


@case("rotary_embedding_torch")
def extrapolated_rotary(run: Run) -> Any:
    from rotary_embedding_torch import RotaryEmbedding

    layer = run.put(RotaryEmbedding(dim=8, use_xpos=True))
    inputs = run.put([torch.randn(1, 2, 6, 8) for _ in range(2)])
    return run.compiled(layer.rotate_queries_and_keys)(*inputs)


@case("mambapy")
def decoded_step_by_step(run: Run) -> Any:
    from mambapy.mamba import Mamba, MambaConfig

    settings = MambaConfig(d_model=8, n_layers=1, d_state=4)
    model = run.put(Mamba(settings)).eval()
    cache = run.put((None, torch.zeros(2, settings.d_inner, settings.d_conv - 1)))
    caches = [cache]
    outputs = []
    step = run.compiled(model.step)
    for x in run.put(torch.randn(3, 2, 8)):
        output, caches = step(x, caches)
        outputs.append(output)
    return outputs


@case("mambapy")
def sequential_scan(run: Run) -> Any:
    from mambapy.mamba import Mamba, MambaConfig

    settings = MambaConfig(d_model=8, n_layers=1, d_state=4, pscan=False, inner_layernorms=True)
    return run.train(Mamba(settings), [torch.randn(2, 8, 8)], steps=1)


@case("ema_pytorch", modes=EAGER)
def post_hoc_average(run: Run) -> Any:
    from ema_pytorch import PostHocEMA

    model = run.put(torch.nn.Linear(4, 3))
    with tempfile.TemporaryDirectory() as directory:
        averages = PostHocEMA(
            model, sigma_rels=(0.05, 0.3), update_every=1, checkpoint_every_num_steps=2,
            checkpoint_folder=directory,
        )  # fmt: skip
        for _ in range(4):
            with torch.no_grad():
                model.weight.add_(0.5)
            averages.update()
        return dict(averages.synthesize_ema_model(sigma_rel=0.15).named_parameters())
