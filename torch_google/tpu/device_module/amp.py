# SPDX-License-Identifier: Apache-2.0
"""`torch.tpu.amp`: automatic mixed precision, with the same names as torch.cuda.amp.

Each name refers to the class or function of the same name in torch.amp, applied to the `tpu`
device. New code should use torch.amp.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.amp import GradScaler as _GradScaler
from torch.amp import autocast as _Autocast  # noqa: N812 - it is a class

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

custom_fwd = functools.partial(torch.amp.custom_fwd, device_type="tpu")
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type="tpu")


class autocast(_Autocast):  # noqa: N801 - as in torch.cuda.amp
    """Equivalent to `torch.autocast("tpu")`. The default dtype is bfloat16."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: torch.dtype = torch.bfloat16,
        cache_enabled: bool = True,
    ) -> None:
        super().__init__("tpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(_GradScaler):
    """Equivalent to `torch.amp.GradScaler("tpu")`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("tpu", *args, **kwargs)
