# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.utils import dlpack

from torch_google.tpu import to_jax
from torch_google.tpu.release import V2_6


def test_numpy_reads_the_buffer_of_a_tensor() -> None:
    x = torch.arange(6.0).reshape(2, 3).to("tpu")
    array = np.from_dlpack(x)
    assert array.ctypes.data == to_jax(x).unsafe_buffer_pointer()
    assert not array.flags.writeable
    x.add_(1)
    assert array.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_views_are_exported_as_they_are_seen() -> None:
    x = torch.arange(6).reshape(2, 3).to("tpu")
    np.testing.assert_array_equal(np.from_dlpack(x.t()[1:]), [[1, 4], [2, 5]])


def test_jax_takes_the_buffer_of_a_tensor() -> None:
    x = torch.ones(4, device="tpu") * 2
    array = jax.dlpack.from_dlpack(x)
    assert array.unsafe_buffer_pointer() == to_jax(x).unsafe_buffer_pointer()
    assert jax.dlpack.from_dlpack(x, copy=True).tolist() == [2.0] * 4


DTYPES = [torch.bool, torch.bfloat16, torch.complex64]
if not V2_6:  # DLPack in v2.6 lacks float8
    DTYPES.append(torch.float8_e4m3fn)


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_takes_a_tensor_as_memory_of_the_host(dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, 1.0]).to(dtype).to("tpu")
    for host in (torch.from_dlpack(x), torch.from_dlpack(dlpack.to_dlpack(x))):
        assert host.device.type == "cpu"
        assert host.dtype == dtype
        assert host.data_ptr() == to_jax(x).unsafe_buffer_pointer()
    assert torch.equal(torch.from_dlpack(torch.to_dlpack(x)), x.cpu())


def test_an_array_becomes_a_tensor_of_the_device_that_is_asked_for() -> None:
    array = jnp.arange(3.0)
    host = torch.from_dlpack(array)
    assert host.device.type == "cpu"
    assert host.data_ptr() == array.unsafe_buffer_pointer()
    if not V2_6:  # in v2.6, torch.from_dlpack ignores the device
        moved = torch.from_dlpack(array, device="tpu")
        assert moved.device.type == "tpu"
        assert moved.tolist() == [0.0, 1.0, 2.0]


def test_torch_says_what_it_says_of_other_devices() -> None:
    x = torch.ones(2, device="tpu", requires_grad=True)
    with pytest.raises(BufferError, match="use tensor.detach"):
        np.from_dlpack(x)
    with pytest.raises(
        TypeError, match="can't convert tpu:0 device type tensor to numpy. Use Tensor"
    ):
        x.detach().numpy()
    with pytest.raises(TypeError, match="can't convert tpu:0"):
        np.asarray(x.detach())


def test_other_devices_are_torch_s_own() -> None:
    x = torch.arange(3.0)
    assert np.from_dlpack(x).ctypes.data == x.data_ptr()
    assert torch.from_dlpack(dlpack.to_dlpack(x)).data_ptr() == x.data_ptr()
    assert x.__dlpack_device__() == (1, 0)
    assert np.from_dlpack(x).flags.writeable == (np.from_dlpack(x.clone()).flags.writeable)
    with pytest.raises(RuntimeError if V2_6 else BufferError, match="require gradient"):
        x.requires_grad_().__dlpack__()


def test_a_platform_without_memory_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_google.tpu.runtime import platform

    x = torch.ones(2, device="tpu")
    monkeypatch.setattr(platform, "name", lambda: "tpu")
    with pytest.raises(BufferError, match="Export tensor.cpu"):
        x.__dlpack_device__()
    with pytest.raises(BufferError, match="Export tensor.cpu"):
        x.__dlpack__()
