# SPDX-License-Identifier: Apache-2.0
"""Test cases for language models and adapters, with random weights."""

from __future__ import annotations

import tempfile
from typing import Any

import torch

from tests.ecosystem.case import Run, case

_SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 32}
_TOKENS = (2, 7)


def _tokens(high: int = 32) -> torch.Tensor:
    return torch.randint(3, high, _TOKENS)


def _train(run: Run, model: Any) -> Any:
    tokens = _tokens()
    inputs = {"input_ids": tokens, "labels": tokens}
    return run.train(model, inputs, loss=lambda output: output.loss)


def _llama(**settings: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(**_SIZES, intermediate_size=32, num_key_value_heads=1, **settings)
    )


@case("transformers")
def llama(run: Run) -> Any:
    return _train(run, _llama())


@case("transformers")
def gpt2(run: Run) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    return _train(run, GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=1, n_head=2, vocab_size=32)))


@case("transformers")
def bert(run: Run) -> Any:
    from transformers import BertConfig, BertForMaskedLM

    return _train(run, BertForMaskedLM(BertConfig(**_SIZES, intermediate_size=32)))


@case("transformers")
def mixtral(run: Run) -> Any:
    from transformers import MixtralConfig, MixtralForCausalLM

    settings = MixtralConfig(
        **_SIZES, intermediate_size=16, num_key_value_heads=1, num_local_experts=2
    )
    return _train(run, MixtralForCausalLM(settings))


@case("transformers")
def t5(run: Run) -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    settings = T5Config(
        vocab_size=32, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, dropout_rate=0.0,
        decoder_start_token_id=0,
    )  # fmt: skip
    return _train(run, T5ForConditionalGeneration(settings))


@case("transformers")
def generate(run: Run) -> Any:
    model = run.put(_llama(eos_token_id=None)).eval()
    model.forward = run.compiled(model.forward)
    return model.generate(run.put(_tokens()), max_new_tokens=4, do_sample=False, pad_token_id=0)


@case("transformers")
def vit(run: Run) -> Any:
    from transformers import ViTConfig, ViTForImageClassification

    settings = {**_SIZES, "intermediate_size": 16, "image_size": 16, "patch_size": 8}
    settings.pop("vocab_size")
    model = ViTForImageClassification(ViTConfig(**settings))
    inputs = {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.tensor([0, 1])}
    return run.train(model, inputs, loss=lambda output: output.loss)


@case("transformers")
def saved_and_loaded(run: Run) -> Any:
    from transformers import LlamaForCausalLM

    model = run.put(_llama())
    with tempfile.TemporaryDirectory() as directory:
        model.save_pretrained(directory)
        loaded = LlamaForCausalLM.from_pretrained(directory, device_map={"": run.device})
    return run.compiled(loaded)(run.put(_tokens())).logits


@case("peft")
def lora(run: Run) -> Any:
    import peft

    settings = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    return _train(run, peft.get_peft_model(_llama(), settings))


@case("peft")
def ia3(run: Run) -> Any:
    import peft

    settings = peft.IA3Config(
        target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"]
    )
    return _train(run, peft.get_peft_model(_llama(), settings))


@case("peft")
def merged(run: Run) -> Any:
    import peft

    settings = peft.LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    model = run.put(peft.get_peft_model(_llama(), settings))
    return run.compiled(model.merge_and_unload())(run.put(_tokens())).logits


@case("sentence_transformers")
def pooled(run: Run) -> Any:
    from sentence_transformers.sentence_transformer.modules import Pooling

    features = {
        "token_embeddings": torch.randn(2, 5, 8),
        "attention_mask": torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]),
    }
    layer = run.compiled(Pooling(8, pooling_mode="mean"))
    return layer(run.put(features))["sentence_embedding"]


@case("sentence_transformers")
def similarity(run: Run) -> Any:
    from sentence_transformers import util

    a, b = run.put([torch.randn(4, 8), torch.randn(6, 8)])
    hits = util.semantic_search(a, b, top_k=2)
    places = torch.tensor([[hit["corpus_id"] for hit in row] for row in hits])
    cosine, product = run.compiled(util.cos_sim), run.compiled(util.dot_score)
    return [cosine(a, b), product(a, b), places]


@case("x_transformers")
def decoder(run: Run) -> Any:
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=16, depth=1, heads=2, attn_dim_head=8, rotary_pos_emb=True)
    model = TransformerWrapper(num_tokens=32, max_seq_len=8, attn_layers=layers)
    return run.train(model, [_tokens()])


@case("x_transformers")
def encoder(run: Run) -> Any:
    from x_transformers import ContinuousTransformerWrapper, Encoder

    model = ContinuousTransformerWrapper(
        dim_in=4, dim_out=3, max_seq_len=8,
        attn_layers=Encoder(dim=16, depth=1, heads=2, attn_dim_head=8, use_rmsnorm=True),
    )  # fmt: skip
    return run.train(model, [torch.randn(2, 7, 4)])


@case("local_attention")
def attention(run: Run) -> Any:
    from local_attention import LocalAttention

    layer = LocalAttention(dim=8, window_size=4, causal=True)
    tensors = [torch.randn(2, 8, 8) for _ in range(3)]
    return run.evaluate(layer, tensors)


@case("local_attention")
def transformer(run: Run) -> Any:
    from local_attention import LocalTransformer

    model = LocalTransformer(
        num_tokens=32, dim=16, depth=1, max_seq_len=8, local_attn_window_size=4, heads=2, dim_head=8
    )
    return run.train(model, [_tokens()])


@case("rotary_embedding_torch")
def rotary(run: Run) -> Any:
    from rotary_embedding_torch import RotaryEmbedding

    layer = run.put(RotaryEmbedding(dim=8))
    return run.compiled(layer.rotate_queries_or_keys)(run.put(torch.randn(1, 2, 6, 8)))


@case("nystrom_attention")
def nystrom(run: Run) -> Any:
    from nystrom_attention import NystromAttention

    layer = NystromAttention(dim=16, heads=2, dim_head=8, num_landmarks=4)
    return run.train(layer, [torch.randn(1, 8, 16)], steps=1)


@case("mambapy")
def mamba(run: Run) -> Any:
    from mambapy.mamba import Mamba, MambaConfig

    return run.train(Mamba(MambaConfig(d_model=8, n_layers=1, d_state=4)), [torch.randn(2, 8, 8)])


@case("ema_pytorch")
def average(run: Run) -> Any:
    from ema_pytorch import EMA

    model = run.put(torch.nn.Linear(4, 3))
    ema = EMA(model, beta=0.9, update_after_step=0, update_every=1)
    update = run.compiled(ema.update)
    for _ in range(3):
        with torch.no_grad():
            model.weight.add_(0.5)
        update()
    return dict(ema.ema_model.named_parameters())


@case("lion_pytorch")
def lion(run: Run) -> Any:
    from lion_pytorch import Lion

    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    model, inputs = run.put([model, torch.randn(5, 4)])
    optimizer = Lion(model.parameters(), lr=1e-3)
    step = run.compiled(optimizer.step)
    for _ in range(2):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        step()
    return dict(model.named_parameters())
