# SPDX-License-Identifier: Apache-2.0
"""Making the device known to torch, without a start of it."""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from torch_google.tpu import _C
from torch_google.tpu.interop import dlpack
from torch_google.tpu.runtime import autocast, device, dynamo, parallel, platform, sharing
from torch_google.tpu.runtime.untraced import untraced

# Autograd's threads end at once; an exit waits no longer for them.
_PATIENCE = 1.0


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
                    "of_bytes": "arrays",
                    "transfer": "transfer",
                    "mark": "events",
                    "mem_get_info": "memory",
                    "fuse": "fused",
                    "attempt": "fused",
                    "entry": "fused",
                    "scratch": "compiler",
                }.items()
            },
        }
    )
    dlpack.install()
    sharing.install()
    parallel.install()
    _C.expect_devices(platform.expected_devices())
    dynamo.install()
    _install_collectives()
    os.register_at_fork(after_in_child=_C.forked)
    atexit.register(_finish)


def _install_collectives() -> None:
    """Have torch.distributed know the device: a group that names no backend is of `collectives`."""
    # `import torch` has it, before it comes here.
    if torch.distributed.is_available():
        torch.distributed.Backend.register_backend(
            "tpu", _later("collectives", "group"), extended_api=True, devices=["cpu", "tpu"]
        )


def _finish() -> None:
    """Stop autograd's threads, and let them end.

    Each takes the GIL once more as it ends: an interpreter that is gone by then ends the process.
    """
    _C.finish()
    deadline = time.monotonic() + _PATIENCE
    while _C.started() and _autograd_lives() and time.monotonic() < deadline:
        time.sleep(0.001)


def _autograd_lives() -> bool:
    for task in Path("/proc/self/task").glob("*/comm"):
        try:
            if task.read_text().startswith("pt_autograd"):
                return True
        except OSError:
            continue  # it has just ended
    return False


def _later(module: str, name: str) -> Callable[..., Any]:
    """Return a function that is imported when it is called: most of them load JAX."""
    found: list[Callable[..., Any]] = []

    def call(*args: Any) -> Any:
        if not found:
            from importlib import import_module

            found.append(getattr(import_module(f"{__package__}.{module}"), name))
        return found[0](*args)

    return untraced(call)
