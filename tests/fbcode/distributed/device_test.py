# SPDX-License-Identifier: Apache-2.0
"""The suites of two processes that have the device."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.testing._internal.distributed._tensor import common_dtensor

from tests.fbcode.distributed.device import TestDevice, TestShards  # noqa: F401 - pytest finds them


def test_torch_finds_the_devices_backend() -> None:
    assert torch.accelerator.current_accelerator() == torch.device("tpu")
    assert dist.get_default_backend_for_device("tpu") == "tpu"
    assert common_dtensor.PG_BACKEND == "tpu"
