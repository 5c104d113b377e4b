# SPDX-License-Identifier: Apache-2.0
"""Makes this device the default in accelerate, unless the program requests the CPU."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch


def extend(state: ModuleType) -> None:
    """Extend the module `accelerate.state`.

    `PartialState.default_device` does not recognize this device, and falls back to the CPU.
    accelerate does not call it if the program has requested the CPU, so its replacement may always
    return this device instead of the CPU.
    """
    known = state.PartialState.default_device

    def default_device(self: Any) -> torch.device:
        device: torch.device = known.fget(self)
        accelerator = torch.accelerator.current_accelerator()
        return accelerator if device.type == "cpu" and accelerator is not None else device

    state.PartialState.default_device = property(default_device, doc=known.__doc__)
