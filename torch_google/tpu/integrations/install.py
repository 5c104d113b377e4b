# SPDX-License-Identifier: Apache-2.0
"""Extends modules of other libraries when they are imported. `_TABLE` lists the modules."""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType

from torch_google.tpu.integrations.import_hook import after_import

VARIABLE = "TORCH_TPU_INTEGRATIONS"
"""The environment variable that turns integrations off with 0."""

# Maps modules of other libraries to the functions in this package that extend them on import.
_TABLE = {
    "accelerate.state": "accelerate:extend",
    "lightning.fabric.connector": "lightning:extend_fabric",
    "lightning.pytorch.trainer.connectors.accelerator_connector": "lightning:extend_trainer",
    "lightning_fabric.connector": "lightning:extend_fabric",
    "peft.utils.other": "peft:extend",
    "pytorch_lightning.trainer.connectors.accelerator_connector": "lightning:extend_trainer",
    "safetensors": "safetensors:extend",
    "torch.nn.attention.flex_attention": "flex_attention:extend",
}


def install() -> None:
    """Arrange for each library in the table to be extended when it is imported. Idempotent.

    Raises ValueError if TORCH_TPU_INTEGRATIONS is neither 0 nor 1.
    """
    setting = os.environ.get(VARIABLE, "1")
    if setting not in ("0", "1"):
        raise ValueError(f"tpu: {VARIABLE}={setting}; use 0 or 1")
    if setting == "1":
        for name in _TABLE:
            after_import(name, _extend)


def _extend(module: ModuleType) -> None:
    name, _, function = _TABLE[module.__name__].partition(":")
    getattr(import_module(f"{__package__}.{name}"), function)(module)
