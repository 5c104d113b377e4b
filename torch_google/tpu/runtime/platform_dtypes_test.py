# SPDX-License-Identifier: Apache-2.0
"""Tensors of an unsupported dtype raise an error that names the dtype and the platform."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from torch_google.tpu import _C
from torch_google.tpu.runtime import platform

WIDE = torch.complex128
ATTEMPTS: dict[str, Callable[[], object]] = {
    "moved": lambda: torch.ones(2, dtype=WIDE).to("tpu"),
    "made of values": lambda: torch.tensor([1j], dtype=WIDE, device="tpu"),
    "filled": lambda: torch.ones(2, dtype=WIDE, device="tpu"),
    "drawn": lambda: torch.randn(2, dtype=WIDE, device="tpu"),
    "never written": lambda: torch.empty(2, dtype=WIDE, device="tpu").cpu(),
    "converted": lambda: torch.ones(2, device="tpu").to(WIDE),
    "computed": lambda: torch.fft.fft(torch.ones(2, dtype=torch.float64, device="tpu")),
    "viewed": lambda: torch.view_as_complex(torch.ones(2, dtype=torch.float64, device="tpu")) + 1,
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_a_tpu_has_no_complex128(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    ATTEMPTS[name]()  # succeeds on the platform that runs the test
    _C.clear_programs()
    monkeypatch.setattr(platform, "name", lambda: "tpu")
    message = (
        "tpu: the platform tpu has no torch.complex128. Make it torch.complex64, or keep such "
        "tensors on the CPU"
    )
    with pytest.raises(RuntimeError, match=message):
        ATTEMPTS[name]()


def test_a_graph_makes_none_on_a_tpu(monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    x = torch.ones(2, dtype=torch.complex64, device="tpu")
    monkeypatch.setattr(platform, "name", lambda: "tpu")
    with pytest.raises(Exception, match="the platform tpu has no torch.complex128"):
        torch.compile(lambda x: x.to(WIDE))(x)


def test_a_tpu_has_the_other_wide_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "name", lambda: "tpu")
    for dtype in (torch.float64, torch.int64, torch.complex64):
        assert (torch.ones(2, dtype=dtype, device="tpu") + 1).dtype == dtype
        assert torch.ones(2, dtype=dtype).to("tpu").cpu().tolist() == [1, 1]
