# SPDX-License-Identifier: Apache-2.0
"""Resets Dynamo before each test; CPU kernels for the tests that use them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture(scope="module")
def cpu_kernels() -> Iterator[None]:
    """Enable CPU kernels for the tests of a module."""
    before = torch.tpu.get_cpu_kernels()
    torch.tpu.set_cpu_kernels(True)
    yield
    torch.tpu.set_cpu_kernels(before)
