# SPDX-License-Identifier: Apache-2.0
"""Register and start the device for all tests, with fast compilation."""

from __future__ import annotations

import pytest
import torch

from torch_google.tpu import autoload
from torch_google.tpu.testing import quick_compiler

quick_compiler.use()
autoload()


@pytest.fixture(scope="session", autouse=True)
def _device() -> None:
    torch.tpu.init()


@pytest.fixture(autouse=True)
def _counted() -> None:
    torch.tpu.reset_metrics()
