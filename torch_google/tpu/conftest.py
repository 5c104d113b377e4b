# SPDX-License-Identifier: Apache-2.0
"""Registers and initializes the device before the tests, and makes XLA compile faster."""

from __future__ import annotations

import os

import pytest
import torch

from torch_google.tpu import autoload
from torch_google.tpu.testing import quick_compiler

quick_compiler.use()
# Most tests are about programs. Tests of CPU kernels call set_cpu_kernels.
os.environ.setdefault("TORCH_TPU_CPU_KERNELS", "0")
autoload()


@pytest.fixture(scope="session", autouse=True)
def _device() -> None:
    torch.tpu.init()


@pytest.fixture(autouse=True)
def _counted() -> None:
    torch.tpu.reset_metrics()
