# SPDX-License-Identifier: Apache-2.0
"""The table of composites: which function torch calls for which operator on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_ATEN = torch.library.Library("aten", "IMPL")


def register() -> None:
    """Give torch every composite. To be called once, when the device starts."""
    from torch_google.tpu.composites import recurrent

    # With gradients on torch looks at the first key, in inference mode at the second.
    _register(recurrent.KERNELS, "AutogradPrivateUse1", "PrivateUse1")


def _register(kernels: dict[str, Callable[..., Any]], *keys: str) -> None:
    for name, kernel in kernels.items():
        for key in keys:
            _ATEN.impl(name, kernel, key)
