# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import NoReturn

import jax
import numpy as np
import pytest
import torch
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from torch_google.tpu import _C, shardings
from torch_google.tpu.runtime import arrays, platform

DTYPES = [torch.float32, torch.int64, torch.bool, torch.bfloat16]


@pytest.fixture
def _a_tpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the platform look like a TPU, and treat arrays of at least 64 bytes as large."""
    _C.start()
    monkeypatch.setattr(platform, "name", lambda: "tpu")
    monkeypatch.setattr(arrays, "_LARGE", 64)


def _refuse(*_: object, **__: object) -> NoReturn:
    raise AssertionError("zeros were made on the host")


@pytest.mark.usefixtures("_a_tpu")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sharded", [False, True])
def test_large_zeros_are_made_on_the_device(
    dtype: torch.dtype, sharded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh = Mesh(np.array([platform.device(0)]), ("x",))
    sharding = NamedSharding(mesh, PartitionSpec("x"))
    number = shardings.number_of(sharding) if sharded else shardings.ONE_DEVICE
    with monkeypatch.context() as patch:
        patch.setattr(np, "zeros", _refuse)
        patch.setattr(jax, "device_put", _refuse)
        zeros = arrays.zeros((16, 4), dtype, 0, number)
        with pytest.raises(AssertionError, match="made on the host"):
            arrays.zeros((1, 4), dtype, 0, number)
    assert zeros.devices() == {platform.device(0)}
    assert isinstance(zeros.sharding, NamedSharding) == sharded
    assert arrays.to_host(zeros).dtype == dtype
    assert arrays.to_host(zeros).tolist() == [0] * 64
    assert arrays.to_host(arrays.zeros((1, 4), dtype, 0, number)).tolist() == [0] * 4


@pytest.mark.usefixtures("_a_tpu")
def test_zeros_without_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> NoReturn:
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Ran out of memory on HBM")

    monkeypatch.setattr(arrays, "_zeros_program", lambda *_: full)
    with pytest.raises(torch.OutOfMemoryError, match=r"a new tensor ran .* it takes 1024 bytes\."):
        arrays.zeros((16, 16), torch.float32, 0)


def test_zeros_on_a_cpu_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "_LARGE", 64)
    monkeypatch.setattr(arrays, "_zeros_program", _refuse)
    assert torch.empty(100, device="tpu").tolist() == [0.0] * 100
