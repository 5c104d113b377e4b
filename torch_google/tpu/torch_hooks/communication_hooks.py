# SPDX-License-Identifier: Apache-2.0
"""Allows DDP's bfloat16 communication hooks on this device.

torch checks the name of the backend, and allows these hooks only for NCCL and XCCL, although the
device's collectives support bfloat16 as well.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch.nn.parallel import DistributedDataParallel

_NAMES = ("bf16_compress_hook", "bf16_compress_wrapper_hook")


def install() -> None:
    """Allow the hooks for modules on this device. Idempotent."""
    check = DistributedDataParallel._check_comm_hook
    if not hasattr(check, "__wrapped__"):
        DistributedDataParallel._check_comm_hook = _on_tpu(check)


def _on_tpu(check: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(check)
    def call(model: Any, hook: Callable[..., Any]) -> None:
        if getattr(hook, "__name__", "") in _NAMES and model.device_type == "tpu":

            @functools.wraps(hook)  # torch also checks the annotations of the hook
            def renamed(*args: Any) -> Any:
                return hook(*args)

            renamed.__name__ = "hook"
            check(model, renamed)
        else:
            check(model, hook)

    return call
