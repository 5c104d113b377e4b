# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that quickly starts the ranks of torch's multi-process tests on a device.

A test starts two to eight ranks, each a spawned process that would import torch and JAX. Instead,
ranks are forked from a server that has imported them. Importing this module prepares that server:
it imports modules that ranks need, and adapts torch's test framework. It starts no device, because
a started platform does not survive a fork.
"""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

DEVICE = "UPSTREAM_DEVICE"
DEVICES = ("cpu", "tpu")
# The number of devices, and the most ranks that a test has. If there were fewer devices than ranks,
# torch's base classes would use the CPU.
COUNT = 8


def device() -> str:
    """Return the device that UPSTREAM_DEVICE names. Raises ValueError for another name."""
    name = os.environ.get(DEVICE, "tpu")
    if name not in DEVICES:
        raise ValueError(f"{DEVICE}: expected one of {', '.join(DEVICES)}, found '{name}'")
    return name


def pytest_configure() -> None:
    """Make torch's tests start ranks from the server."""
    import torch.multiprocessing as torch_multiprocessing

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    real = torch_multiprocessing.get_context

    def get_context(method: str | None = None) -> Any:
        return context if method in (None, "spawn") else real(method)

    torch_multiprocessing.get_context = get_context
    torch_multiprocessing.set_start_method = lambda *args, **kwargs: None


def _prepare() -> None:
    import torch

    if device() == "cpu":
        from torch.testing._internal import common_distributed  # noqa: F401
        from torch.testing._internal.distributed._tensor import common_dtensor

        return
    from torch_google.tpu import autoload

    autoload()
    import torch._meta_registrations

    import torch_google.tpu.lowerings
    import torch_google.tpu.lowerings.meta_kernels  # noqa: F401

    # torch's framework counts devices as it is imported, which would start the platform.
    counts = torch.accelerator.device_count, torch.tpu.device_count
    torch.accelerator.device_count = torch.tpu.device_count = lambda: COUNT
    from torch.testing._internal.distributed._tensor import common_dtensor

    torch.accelerator.device_count, torch.tpu.device_count = counts
    # By default, the class uses the device's backend alone, which its own list of backends lacks.
    common_dtensor.DTensorTestBase.backend = property(
        lambda self: "cpu:gloo,tpu:tpu" if self.device_type == "tpu" else "gloo"
    )


_prepare()
