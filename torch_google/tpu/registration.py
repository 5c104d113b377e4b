# SPDX-License-Identifier: Apache-2.0
"""Registers the device with torch without initializing it."""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from torch_google.tpu import _C, integrations, startup
from torch_google.tpu.device_module import tpu
from torch_google.tpu.runtime import platform
from torch_google.tpu.runtime.dynamo_skip import untraced
from torch_google.tpu.torch_hooks import (
    autocast,
    communication_hooks,
    data_parallel,
    dlpack,
    dynamo,
    multiprocessing_ipc,
)

# How long to wait for autograd's threads at exit, in seconds. They usually exit immediately.
_PATIENCE = 1.0


def register() -> None:
    """Register the `tpu` device and the `torch.tpu` module. Idempotent."""
    if getattr(torch, "tpu", None) is tpu:
        return
    torch.utils.rename_privateuse1_backend("tpu")
    torch._register_device_module("tpu", tpu)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    autocast.install()
    _C.connect(
        {
            "start": startup.start,
            **{
                name: _lazy(module, name)
                for name, module in {
                    "miss": "torch_google.tpu.eager.miss",
                    "explain": "torch_google.tpu.runtime.errors",
                    "debug": "torch_google.tpu.eager.debug",
                    "zeros": "torch_google.tpu.runtime.arrays",
                    "to_host": "torch_google.tpu.runtime.arrays",
                    "received": "torch_google.tpu.runtime.arrays",
                    "replicated": "torch_google.tpu.runtime.arrays",
                    "localized": "torch_google.tpu.runtime.arrays",
                    "resized": "torch_google.tpu.runtime.arrays",
                    "of_bytes": "torch_google.tpu.runtime.arrays",
                    "transfer": "torch_google.tpu.runtime.transfer",
                    "mark": "torch_google.tpu.runtime.events",
                    "dump_flight_record": "torch_google.tpu.collectives.flight_recorder",
                    "mem_get_info": "torch_google.tpu.runtime.memory",
                    "fuse": "torch_google.tpu.fused.fusion",
                    "attempt": "torch_google.tpu.fused.fusion",
                    "entry": "torch_google.tpu.fused.fusion",
                    "scratch": "torch_google.tpu.runtime.compiler",
                    "frame_kind": "torch_google.tpu.runtime.errors",
                }.items()
            },
        }
    )
    _C.set_cpu_kernel_policy(_lazy("torch_google.tpu.eager.cpu_kernels", "admit"))
    dlpack.install()
    multiprocessing_ipc.install(receive)
    data_parallel.install()
    _C.expect_devices(platform.expected_devices())
    dynamo.install()
    _install_collectives()
    integrations.install()
    os.register_at_fork(after_in_child=_C.forked)
    atexit.register(_finish)


def receive(*parts: Any) -> Any:
    """Rebuild a tensor that another process sent. If necessary, register the device first."""
    register()
    return multiprocessing_ipc.rebuild(*parts)


def _install_collectives() -> None:
    """Register the process group backend as `tpu` and under its upstream name `tpu_dist`."""
    # torch can be built without torch.distributed. If it is available, `import torch` has already
    # loaded it.
    if torch.distributed.is_available():
        communication_hooks.install()
        for name in ("tpu", "tpu_dist"):
            torch.distributed.Backend.register_backend(
                name,
                _lazy("torch_google.tpu.collectives.group", "backend"),
                extended_api=True,
                devices=["cpu", "tpu"],
            )


def _finish() -> None:
    """Stop autograd's threads and wait for them to exit.

    Each thread acquires the GIL once more before it exits. If the interpreter had been finalized by
    then, the process would crash.
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
            continue  # the thread has ended in the meantime
    return False


def _lazy(module: str, name: str) -> Callable[..., Any]:
    """Return a function that imports its target lazily, because most targets load JAX."""
    target: list[Callable[..., Any]] = []

    def call(*args: Any) -> Any:
        if not target:
            from importlib import import_module

            target.append(getattr(import_module(module), name))
        return target[0](*args)

    return untraced(call)
