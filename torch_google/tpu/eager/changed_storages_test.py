# SPDX-License-Identifier: Apache-2.0
"""Storages that another thread changes while an operator waits for JAX without the GIL.

The tests change the storage from a function that the operator calls at that point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from torch_google.tpu import _C
from torch_google.tpu.eager import check_program
from torch_google.tpu.runtime import platform


@pytest.fixture(autouse=True)
def _programs() -> Iterator[None]:
    before = torch.tpu.get_cpu_kernels()
    torch.tpu.set_cpu_kernels(False)
    yield
    torch.tpu.set_cpu_kernels(before)


def _change_once(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, change: Callable[[], object]
) -> None:
    """Call `change` the next time that `module.name` is called."""
    function = getattr(module, name)

    def changing(*args: Any) -> Any:
        monkeypatch.setattr(module, name, function)
        change()
        return function(*args)

    monkeypatch.setattr(module, name, changing)


@pytest.mark.parametrize("mode", ["strict", "debug", "fused"])
def test_a_blank_storage_is_resized_while_its_zeros_are_created(
    mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with torch.tpu.eager_mode(mode):
        assert (torch.zeros(4, device="tpu") + 1).tolist() == [1.0] * 4
        x = torch.empty(4, device="tpu")
        _change_once(monkeypatch, platform, "device", lambda: x.untyped_storage().resize_(32))
        y = x + 1
        assert x.untyped_storage().nbytes() == 32
        x.resize_(8).add_(2)
        assert y.tolist() == [1.0] * 4
        assert x.tolist() == [2.0] * 8


@pytest.mark.parametrize("mode", ["strict", "debug", "fused"])
def test_a_blank_storage_is_padded_while_its_zeros_are_created(
    mode: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with torch.tpu.eager_mode(mode):
        assert (torch.zeros(4, device="tpu") + 1).tolist() == [1.0] * 4
        x = torch.empty(4, device="tpu")
        _change_once(monkeypatch, platform, "device", lambda: _C.pad_storage(x, 8))
        y = x + 1
        assert _C.natural_shape(x) == (8,)
        x += 2
        assert y.tolist() == [1.0] * 4
        assert x.tolist() == [2.0] * 4


def _fill(x: torch.Tensor) -> None:
    x.normal_()


def _fill_part(x: torch.Tensor) -> None:
    x[:2].normal_()


@pytest.mark.parametrize("fill", [_fill, _fill_part])
def test_an_operator_that_runs_again_draws_once(
    fill: Callable[[torch.Tensor], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with torch.tpu.eager_mode("debug"):
        torch.tpu.manual_seed(3)
        x = torch.ones(4, device="tpu")
        fill(x)
        expected = x.tolist()
        state = torch.tpu.get_rng_state()
        torch.tpu.manual_seed(3)
        x = torch.ones(4, device="tpu")
        _change_once(
            monkeypatch, check_program, "error_of", lambda: x.untyped_storage().resize_(32)
        )
        fill(x)
        assert x.tolist() == expected
        assert torch.equal(torch.tpu.get_rng_state(), state)
        assert x.resize_(8)[4:].tolist() == [0.0] * 4
