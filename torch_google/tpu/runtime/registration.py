# SPDX-License-Identifier: Apache-2.0
"""Making the device known to torch, without a start of it."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import Any

import torch

from torch_google.tpu import _C
from torch_google.tpu.interop import dlpack
from torch_google.tpu.runtime import autocast, device, dynamo, platform
from torch_google.tpu.runtime.untraced import untraced


def register() -> None:
    """Register the device `tpu` and the module `torch.tpu`. A second call does nothing."""
    if getattr(torch, "tpu", None) is device:
        return
    torch.utils.rename_privateuse1_backend("tpu")
    torch._register_device_module("tpu", device)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    autocast.install()
    _C.connect(
        {
            "start": platform.start,
            **{
                name: _later(module, name)
                for name, module in {
                    "miss": "miss",
                    "explain": "errors",
                    "debug": "errors",
                    "zeros": "arrays",
                    "resized": "arrays",
                    "transfer": "transfer",
                    "mark": "events",
                    "mem_get_info": "memory",
                    "fuse": "fused",
                    "attempt": "fused",
                    "scratch": "compiler",
                }.items()
            },
        }
    )
    dlpack.install()
    _C.expect_devices(platform.expected_devices())
    dynamo.install()
    os.register_at_fork(after_in_child=_C.forked)
    atexit.register(_C.finish)


def _later(module: str, name: str) -> Callable[..., Any]:
    """Return a function that is imported when it is called: most of them load JAX."""
    found: list[Callable[..., Any]] = []

    def call(*args: Any) -> Any:
        if not found:
            from importlib import import_module

            found.append(getattr(import_module(f"{__package__}.{module}"), name))
        return found[0](*args)

    return untraced(call)
