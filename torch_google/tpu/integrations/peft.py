# SPDX-License-Identifier: Apache-2.0
"""Makes peft's `infer_device` return this device instead of the CPU.

peft loads adapters onto the device that the function returns, and computes there in MonteCLoRA and
LoRA-FA. It has a fixed list of devices.
"""

from __future__ import annotations

from types import ModuleType

import torch


def extend(other: ModuleType) -> None:
    """Replace `infer_device` in `peft.utils.other`, before peft's other modules import it."""
    original = other.infer_device

    def infer_device() -> str:
        device: str = original()
        accelerator = torch.accelerator.current_accelerator()
        return accelerator.type if device == "cpu" and accelerator is not None else device

    infer_device.__doc__ = original.__doc__
    other.infer_device = infer_device  # type: ignore[attr-defined]
