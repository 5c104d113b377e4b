# SPDX-License-Identifier: Apache-2.0
"""Run the suites that use the device in two processes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist

from tests.fbcode.distributed.device import TestDevice, TestShards  # noqa: F401 - pytest finds them


@pytest.fixture(autouse=True)
def _device(record_property: Callable[[str, object], None]) -> None:
    record_property("device", "tpu")


def test_torch_finds_the_devices_backend() -> None:
    # Import the framework only after `device`, which registers the device, because the framework
    # looks for devices when it is imported.
    from torch.testing._internal.distributed._tensor import common_dtensor

    assert torch.accelerator.current_accelerator() == torch.device("tpu")
    assert dist.get_default_backend_for_device("tpu") == "tpu"
    assert common_dtensor.PG_BACKEND == "tpu"
