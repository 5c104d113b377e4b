# SPDX-License-Identifier: Apache-2.0
"""Makes bfloat16 the default dtype of torch.autocast("tpu") in every thread.

torch stores the dtype per device and thread, and every thread starts with float16. Because torch
has no hook for new threads, the dtype is set when a thread first enters autocast, unless the thread
has already chosen one.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import torch

_thread = threading.local()


def install() -> None:
    """Make bfloat16 the default for this thread and for all threads that start later."""
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
