# SPDX-License-Identifier: Apache-2.0
"""torch's CPU operators run oneDNN's kernels, and their results agree with torch's own kernels."""

from __future__ import annotations

import ctypes
import multiprocessing
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.backends import mkldnn

_KINDS = {
    "convolution": lambda: torch.nn.Conv2d(8, 16, 3, padding=1),
    "transposed convolution": lambda: torch.nn.ConvTranspose2d(8, 4, 3, stride=2),
    "grouped convolution": lambda: torch.nn.Conv2d(8, 8, 3, groups=8),
    "linear": lambda: torch.nn.Linear(12, 20),
    "pooling": lambda: torch.nn.MaxPool2d(2),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", _KINDS)
def test_results_and_gradients_agree_with_torchs_own(kind: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    module = _KINDS[kind]().to(dtype)
    images = torch.randn(4, 8, 12, 12, dtype=dtype, requires_grad=True)
    inputs = [images, *module.parameters()]
    with mkldnn.flags(enabled=False):
        expected = module(images)
        weights = torch.randn_like(expected)
        slopes = torch.autograd.grad(expected, inputs, weights)
    result = module(images)
    gradients = torch.autograd.grad(result, inputs, weights)
    limits = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 0.05, "atol": 0.1}
    for actual, wanted in zip((result, *gradients), (expected, *slopes), strict=True):
        torch.testing.assert_close(actual, wanted, **limits)


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_recurrent_networks_agree_with_torchs_own(kind: type[torch.nn.RNNBase]) -> None:
    torch.manual_seed(0)
    network = kind(8, 16, num_layers=2, bidirectional=True)
    steps = torch.randn(5, 3, 8, requires_grad=True)
    with mkldnn.flags(enabled=False):
        expected, _ = network(steps)
        (slope,) = torch.autograd.grad(expected.square().sum(), steps)
    result, _ = network(steps)
    (gradient,) = torch.autograd.grad(result.square().sum(), steps)
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gradient, slope, rtol=1e-4, atol=1e-4)


def test_tensors_in_onednns_layout() -> None:
    rows = torch.randn(6, 4)
    again = rows.to_mkldnn().relu().to_dense()
    assert torch.equal(again, rows.relu())


def test_a_quantized_network_runs() -> None:
    torch.manual_seed(0)
    assert "onednn" in torch.backends.quantized.supported_engines
    torch.backends.quantized.engine = "onednn"
    network = torch.nn.Sequential(torch.nn.Linear(16, 8))
    quantized = torch.ao.quantization.quantize_dynamic(network, {torch.nn.Linear})
    rows = torch.randn(4, 16)
    assert (quantized(rows) - network(rows)).abs().max() < 0.05


def test_code_is_generated_for_this_processor(capfd: pytest.CaptureFixture[str]) -> None:
    """oneDNN's own log names the kernel that it generated."""
    assert mkldnn.is_available()
    with mkldnn.verbose(mkldnn.VERBOSE_ON):
        torch.nn.functional.conv2d(torch.randn(16, 16, 32, 32), torch.randn(16, 16, 3, 3))
    ctypes.CDLL(None).fflush(None)  # oneDNN writes with printf, which buffers
    log = capfd.readouterr().out
    wanted = "avx512" if torch.cpu._is_avx512_supported() else "avx2"
    assert re.search(rf"exec,cpu,convolution,\w*(jit|brg)\w*:\w*{wanted}", log), log


def _convolve(threads: int) -> torch.Tensor:
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    return torch.nn.functional.conv2d(torch.randn(8, 32, 32, 32), torch.randn(32, 32, 3, 3))


def _on_one_thread() -> None:
    _convolve(1)
    assert len(_threads()) == 1


def _on_three_threads() -> None:
    expected = _convolve(1)
    torch.testing.assert_close(_convolve(3), expected)
    # torch.set_num_threads may have started threads of BLAS, too.
    assert _threads().count("PTThreadTeam") == 2
    torch.testing.assert_close(_convolve(1), expected)


@pytest.mark.parametrize("work", [_on_one_thread, _on_three_threads])
def test_onednn_uses_torchs_threads(work: Callable[[], None]) -> None:
    """In a forked process, because other tests have started threads in this one."""
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(300)
    assert child.exitcode == 0


def _threads() -> list[str]:
    """Return the names of this process's threads."""
    return [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
