# SPDX-License-Identifier: Apache-2.0
"""The device for tests, registered and started, and a compiler that has seen nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from torch_google.tpu import autoload

autoload()


@pytest.fixture(scope="session", autouse=True)
def _device() -> None:
    torch.tpu.init()


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    torch.tpu.reset_metrics()
    yield
    torch._dynamo.reset()
