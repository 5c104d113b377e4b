# SPDX-License-Identifier: Apache-2.0
"""Test the operator with a CUDA kernel. Without a GPU, test everything except the kernel."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest
import torch

from examples.scaled_tanh import scaled_tanh

_OPERATOR = torch.ops.torch_google_examples.scaled_tanh.default
_LAUNCH = torch.ops.torch_google_examples.scaled_tanh_launch.default
_PAR = Path(__file__).with_name("scaled_tanh.par")


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def test_it_has_kernels_for_both_devices() -> None:
    for operator, key in ((_OPERATOR, "CPU"), (_OPERATOR, "CUDA"), (_LAUNCH, "CUDA")):
        assert torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), key)
    assert not torch._C._dispatch_has_kernel_for_dispatch_key(_LAUNCH.name(), "CPU")


def test_it_agrees_with_torch_on_the_cpu() -> None:
    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(scaled_tanh(x, 0.5), 0.5 * torch.tanh(x))


def test_torch_accepts_the_operator() -> None:
    x = torch.randn(4, requires_grad=True)
    torch.library.opcheck(_OPERATOR, (x, 2.0))
    wide = torch.randn(4, dtype=torch.float64, requires_grad=True)
    for scale in (2.0, 0.0):
        assert torch.autograd.gradcheck(
            lambda value, scale=scale: scaled_tanh(value, scale), (wide,)
        )


def test_shapes_on_cuda_are_known_without_a_gpu() -> None:
    with torch._subclasses.FakeTensorMode():
        y = scaled_tanh(torch.empty(2, 3, device="cuda"), 2.0)
    assert (y.shape, y.device.type) == ((2, 3), "cuda")


@pytest.mark.skipif(_has_driver(), reason="this machine has an NVIDIA driver")
def test_without_a_driver_only_the_launch_fails() -> None:
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
    x = torch.ones(2)
    with pytest.raises(
        RuntimeError, match="scaled_tanh: this machine has no NVIDIA driver .*Install"
    ):
        _LAUNCH.redispatch(keys, x, torch.empty_like(x), 2.0, 0)


@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="this torch has no CUDA, or this machine no GPU"
)
def test_the_kernel_agrees_with_torch() -> None:
    x = torch.randn(1000, 1001, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        y = scaled_tanh(x.t(), 2.0)
    stream.synchronize()
    torch.testing.assert_close(y, 2.0 * torch.tanh(x.t()))


def test_the_program_runs_as_one_file() -> None:
    result = subprocess.run([_PAR, "--device=cpu"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert (
        "scaled_tanh on cpu: [-1.9901, -1.9281, -1.5232, 0.0, 1.5232, 1.9281, 1.9901]"
        in result.stdout
    )


@pytest.mark.parametrize("device", ["meta", "nowhere", "mps", "privateuseone"])
def test_a_device_that_cannot_compute_is_an_error_of_usage(device: str) -> None:
    command = [str(_PAR), f"--device={device}"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert f"error: --device={device}: torch cannot compute there: " in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU that torch can use")
def test_cuda_without_a_gpu_is_an_error_of_usage() -> None:
    command = [str(_PAR), "--device=cuda"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "--device=cuda: torch cannot compute there: " in result.stderr
