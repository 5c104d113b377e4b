# SPDX-License-Identifier: Apache-2.0
"""accelerate: the default device is this one, unless the program asks for the CPU."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch


def extend(state: ModuleType) -> None:
    """Extend the module `accelerate.state`.

    `PartialState.default_device` names the devices that it knows, and this is none of them. Its
    callers ask it only if the program has not asked for the CPU.
    """
    known = state.PartialState.default_device

    def default_device(self: Any) -> torch.device:
        device: torch.device = known.fget(self)
        accelerator = torch.accelerator.current_accelerator()
        return accelerator if device.type == "cpu" and accelerator is not None else device

    state.PartialState.default_device = property(default_device, doc=known.__doc__)
