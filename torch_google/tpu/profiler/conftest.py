# SPDX-License-Identifier: Apache-2.0
"""The device for tests, registered and started."""

from __future__ import annotations

import pytest
import torch

from torch_google.tpu import autoload

autoload()


@pytest.fixture(scope="session", autouse=True)
def _device() -> None:
    torch.tpu.init()
