# SPDX-License-Identifier: Apache-2.0
"""torch's default dtype determines result dtypes, so it is part of each program's key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_google.tpu import _C

_CALLS: dict[str, Callable[[Any], torch.Tensor]] = {
    "a root of integers": lambda device: torch.arange(4).to(device).sqrt(),
    "integers and a number": lambda device: torch.arange(4).to(device) * 1.5,
    "a complex number": lambda device: torch.arange(4).to(device) * 1j,
    "numbers": lambda device: torch.full((3,), 1.5, device=device),
    "a range": lambda device: torch.arange(0, 1, 0.25, device=device),
    "steps": lambda device: torch.linspace(0, 1, 5, device=device),
    "a window": lambda device: torch.hann_window(5, device=device),
    "random numbers": lambda device: torch.randn(3, device=device) * 0,
}


@pytest.fixture(autouse=True)
def _default() -> Iterator[None]:
    yield
    torch.set_default_dtype(torch.float32)
    torch.tpu.set_compile_cache(None)


@pytest.mark.parametrize("mode", ["strict", "fused"])
@pytest.mark.parametrize("call", _CALLS.values(), ids=_CALLS.keys())
def test_results_are_what_they_are_on_the_cpu(
    call: Callable[[Any], torch.Tensor], mode: Any
) -> None:
    with torch.tpu.eager_mode(mode):
        for dtype in (torch.float32, torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            torch.testing.assert_close(call("tpu").cpu(), call("cpu"))


def test_the_compile_cache_keeps_programs_apart(tmp_path: Path) -> None:
    torch.tpu.set_compile_cache(tmp_path)
    x = torch.arange(4).to("tpu")
    for dtype in (torch.float32, torch.float64):
        _C.clear_programs()  # like a new process, look up the program in the compile cache
        torch.set_default_dtype(dtype)
        assert x.sqrt().dtype == dtype


def _trace() -> torch.Tensor:
    x = torch.arange(4).to("tpu")
    return (x * 1.5).exp().add(0.5).mul(x).sqrt()


def test_a_trace_is_compiled_for_the_dtype_that_it_was_recorded_with(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch.tpu.set_compile_cache(tmp_path)
    torch.set_default_dtype(torch.float64)
    expected = _trace().cpu()
    _C.clear_programs()
    with torch.tpu.eager_mode("fused"):
        for _ in range(2):
            # Programs from the compile cache have not been traced. So their operators are traced
            # only when the fused program is compiled, after the default dtype has changed.
            torch.set_default_dtype(torch.float64)
            actual = _trace()
            torch.set_default_dtype(torch.float32)
            assert actual.dtype == torch.float64
            torch.testing.assert_close(actual.cpu(), expected, rtol=1e-14, atol=0)
            torch.tpu.wait_for_compiles()
    assert "default dtype was torch.float64, and its program cannot be traced now" in caplog.text
