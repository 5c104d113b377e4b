# SPDX-License-Identifier: Apache-2.0
"""Text and speech models from transformers, with a few layers of width 256."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from benchmarks.models.model import Model, Work
from benchmarks.models.zoo import losses

_VOCABULARY = 2000
_TOKENS = (2, 64)
_WIDTH, _HEADS, _LAYERS = 256, 4, 3

_BERT = {
    "hidden_size": _WIDTH,
    "intermediate_size": 4 * _WIDTH,
    "num_hidden_layers": _LAYERS,
    "num_attention_heads": _HEADS,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
_ENCODER_DECODER = {
    "d_model": _WIDTH,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 4 * _WIDTH,
    "decoder_ffn_dim": 4 * _WIDTH,
    "encoder_attention_heads": _HEADS,
    "decoder_attention_heads": _HEADS,
    "dropout": 0.0,
    "use_cache": False,
    "decoder_start_token_id": 2,
}


class Logits(torch.nn.Module):
    """A wrapper that passes positional inputs to a transformers model and returns its logits."""

    def __init__(self, module: torch.nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.module = module
        self._names = tuple(names)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.module(**dict(zip(self._names, inputs, strict=True))).logits


def _work(family: str, head: str, names: Sequence[str], settings: dict[str, Any]) -> Work:
    import transformers

    config = getattr(transformers, f"{family}Config")(vocab_size=_VOCABULARY, **settings)
    module = getattr(transformers, f"{family}{head}")(config)
    makers = {"input_features": partial(torch.randn, 2, 80, 192)}
    inputs = tuple(makers.get(name, _tokens)() for name in names)
    return Work(Logits(module, names), inputs, _tokens(), losses.classes)


def _tokens() -> torch.Tensor:
    return torch.randint(3, _VOCABULARY, _TOKENS)


def _language(
    name: str, family: str, head: str, *names: str, **settings: Any
) -> Model:  # fmt: skip
    build = partial(_work, family, head, names or ("input_ids",), settings)
    return Model("transformers", name, build)


MODELS = (
    _language("bert", "Bert", "ForMaskedLM", **_BERT),
    _language("albert", "Albert", "ForMaskedLM", embedding_size=128, **_BERT),
    _language("electra", "Electra", "ForMaskedLM", embedding_size=128, **_BERT),
    _language(
        "distilbert", "DistilBert", "ForMaskedLM", dim=_WIDTH, hidden_dim=4 * _WIDTH,
        n_layers=_LAYERS, n_heads=_HEADS, dropout=0.0, attention_dropout=0.0,
    ),
    _language(
        "gpt2", "GPT2", "LMHeadModel", n_embd=_WIDTH, n_layer=_LAYERS, n_head=_HEADS,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False, bos_token_id=0,
        eos_token_id=1,
    ),
    _language(
        "llama", "Llama", "ForCausalLM", hidden_size=_WIDTH, intermediate_size=3 * _WIDTH,
        num_hidden_layers=_LAYERS, num_attention_heads=_HEADS, num_key_value_heads=2,
        use_cache=False,
    ),
    _language(
        "bart", "Bart", "ForConditionalGeneration", "input_ids", "decoder_input_ids",
        **_ENCODER_DECODER,
    ),
    _language(
        "t5", "T5", "ForConditionalGeneration", "input_ids", "decoder_input_ids", d_model=_WIDTH,
        d_kv=64, d_ff=4 * _WIDTH, num_layers=2, num_heads=_HEADS, dropout_rate=0.0,
        use_cache=False, decoder_start_token_id=0,
    ),
    _language(
        "whisper", "Whisper", "ForConditionalGeneration", "input_features", "decoder_input_ids",
        max_source_positions=96, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        **_ENCODER_DECODER,
    ),
)  # fmt: skip
