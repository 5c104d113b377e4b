# SPDX-License-Identifier: Apache-2.0
"""Makes peft's `infer_device` return this device instead of the CPU.

peft loads adapters to this device, and computes on it in MonteCLoRA and LoRA-FA. Its own list of
devices is closed.
"""

from __future__ import annotations

from types import ModuleType

import torch


def extend(other: ModuleType) -> None:
    """Extend the module `peft.utils.other` before other modules can import the original."""
    original = other.infer_device

    def infer_device() -> str:
        device: str = original()
        accelerator = torch.accelerator.current_accelerator()
        return accelerator.type if device == "cpu" and accelerator is not None else device

    infer_device.__doc__ = original.__doc__
    other.infer_device = infer_device  # type: ignore[attr-defined]
