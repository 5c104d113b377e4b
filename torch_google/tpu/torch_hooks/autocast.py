# SPDX-License-Identifier: Apache-2.0
"""torch.autocast("tpu") takes bfloat16 where nobody says otherwise, in every thread.

torch keeps the dtype of each device for each thread, and begins with float16. There is no place to
say what a new thread begins with, so a thread is put right where it first enters autocast,
unless it has chosen a dtype before.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import torch

_thread = threading.local()


def install() -> None:
    """Make bfloat16 the default of this thread and of all that come."""
    _begin()
    original = torch.amp.autocast_mode.autocast.__init__

    @functools.wraps(original)
    def initialize(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        if device_type == "tpu" and not hasattr(_thread, "begun"):
            _begin()
        original(self, device_type, *args, **kwargs)

    torch.amp.autocast_mode.autocast.__init__ = initialize
    set_dtype = torch.set_autocast_dtype

    @functools.wraps(set_dtype)
    def choose(device_type: str, dtype: torch.dtype) -> None:
        set_dtype(device_type, dtype)
        if device_type == "tpu":
            _thread.begun = True

    torch.set_autocast_dtype = choose


def _begin() -> None:
    _thread.begun = True
    torch.set_autocast_dtype("tpu", torch.bfloat16)
