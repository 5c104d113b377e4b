# SPDX-License-Identifier: Apache-2.0
"""transformers' common model tests (`ModelTesterMixin`) for small models of several families.

The source distribution contains the common tests, but neither the per-model folders that apply them
nor the mixins for exporters and generation that they import.
"""

from __future__ import annotations

import sys
import types
import unittest
from collections.abc import Mapping
from typing import Any

from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Model,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    LlamaModel,
    OPTConfig,
    OPTForCausalLM,
    OPTModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2Model,
    ViTConfig,
    ViTForImageClassification,
    ViTModel,
)

for _name, _class in (
    ("exporters.test_export", "ExportTesterMixin"),
    ("generation.test_utils", "GenerationTesterMixin"),
):
    _module = types.ModuleType(f"{__package__}.{_name}")
    setattr(_module, _class, type(_class, (), {}))
    sys.modules[f"{__package__}.{_name.partition('.')[0]}"] = types.ModuleType(_name)
    sys.modules[_module.__name__] = _module

from .test_modeling_common import (  # noqa: E402
    ModelTesterMixin,
    floats_tensor,
    ids_tensor,
    random_attention_mask,
)

_TEXT: Mapping[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "max_position_embeddings": 64,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "pad_token_id": 0,
}
_DECODER: Mapping[str, Any] = {
    name: value for name, value in _TEXT.items() if not name.endswith("dropout_prob")
} | {
    "num_key_value_heads": 2,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "head_dim": 8,
}

_GPT2 = {
    "vocab_size": 99,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "bos_token_id": 98,
    "eos_token_id": 98,
    "pad_token_id": 0,
}
_OPT = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "ffn_dim": 37,
    "max_position_embeddings": 64,
    "word_embed_proj_dim": 32,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
_VIT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 37,
    "image_size": 30,
    "patch_size": 2,
}


class _Tester:
    """The sizes of a model and its inputs, as attributes that the common tests read."""

    batch_size = 3
    seq_length = 7
    hidden_size = 32
    num_hidden_layers = 2
    num_attention_heads = 4
    num_labels = 3
    image_size = 30
    patch_size = 2
    is_training = True

    def __init__(self, config_class: Any, arguments: Mapping[str, Any]) -> None:
        self._config_class = config_class
        self._arguments = arguments

    def get_config(self) -> Any:
        return self._config_class(**self._arguments)

    def prepare_config_and_inputs_for_common(self) -> tuple[Any, dict[str, Any]]:
        config = self.get_config()
        return config, {
            "input_ids": ids_tensor([self.batch_size, self.seq_length], config.vocab_size),
            "attention_mask": random_attention_mask([self.batch_size, self.seq_length]),
        }


class _ImageTester(_Tester):
    num_channels = 3
    mask_length = (_Tester.image_size // _Tester.patch_size) ** 2
    seq_length = mask_length + 1
    num_masks = seq_length // 2

    def prepare_config_and_inputs_for_common(self) -> tuple[Any, dict[str, Any]]:
        shape = [self.batch_size, self.num_channels, self.image_size, self.image_size]
        return self.get_config(), {"pixel_values": floats_tensor(shape)}


class _Family(ModelTesterMixin):
    config_class: Any = None
    arguments: Mapping[str, Any] = _DECODER
    inputs_class: type[_Tester] = _Tester

    def setUp(self) -> None:
        self.model_tester = self.inputs_class(self.config_class, self.arguments)


class BertModelTest(_Family, unittest.TestCase):
    config_class = BertConfig
    arguments = _TEXT
    all_model_classes = (
        BertModel,
        BertForMaskedLM,
        BertForQuestionAnswering,
        BertForSequenceClassification,
        BertForTokenClassification,
    )


class LlamaModelTest(_Family, unittest.TestCase):
    config_class = LlamaConfig
    all_model_classes = (LlamaModel, LlamaForCausalLM, LlamaForSequenceClassification)


class GPT2ModelTest(_Family, unittest.TestCase):
    config_class = GPT2Config
    arguments = _GPT2
    all_model_classes = (GPT2Model, GPT2LMHeadModel)


class ViTModelTest(_Family, unittest.TestCase):
    config_class = ViTConfig
    inputs_class = _ImageTester
    arguments = _VIT
    all_model_classes = (ViTModel, ViTForImageClassification)
    test_resize_embeddings = False


class OPTModelTest(_Family, unittest.TestCase):
    config_class = OPTConfig
    arguments = _OPT
    all_model_classes = (OPTModel, OPTForCausalLM)


class Qwen2ModelTest(_Family, unittest.TestCase):
    config_class = Qwen2Config
    all_model_classes = (Qwen2Model, Qwen2ForCausalLM)
