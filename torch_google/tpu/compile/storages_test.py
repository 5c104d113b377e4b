# SPDX-License-Identifier: Apache-2.0
"""Calls with different storage dtypes use separate programs. No guard checks those dtypes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch


def _seen_as_floats() -> torch.Tensor:
    return torch.zeros(1, dtype=torch.int32, device="tpu").view(torch.float32)


@pytest.mark.parametrize("dynamic", [False, True])
def test_storages_of_two_dtypes_are_two_programs(dynamic: bool) -> None:
    function: Callable[..., torch.Tensor] = torch.compile(lambda x, y: x + y, dynamic=dynamic)
    for size in (3, 4, 5):
        x = torch.ones(size).to("tpu")
        for _ in range(2):
            assert function(x, _seen_as_floats()).tolist() == [1.0] * size
            assert function(x, torch.ones(1).to("tpu")).tolist() == [2.0] * size
