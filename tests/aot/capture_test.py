# SPDX-License-Identifier: Apache-2.0
"""Test that every program of a call is captured and lowered for a TPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.aot.capture import Capture
from tests.aot.rows import Program
from tests.aot.store import Store
from torch_google.tpu import _C

Captured = Callable[[Callable[[], object]], list[tuple[Program, str]]]


@pytest.fixture
def captured(tmp_path: Path) -> Captured:
    store = Store(tmp_path)
    capture = Capture(store)

    def run(call: Callable[[], object]) -> list[tuple[Program, str]]:
        _C.clear_programs()
        with capture.running():
            call()
        programs = capture.take()
        return [(p, p.digest and store.program(p.digest).read_text()) for p in programs]

    return run


def test_programs_are_captured_again_when_they_are_not_compiled_again(captured: Captured) -> None:
    x = torch.ones(3, device="tpu")
    ((program, text),) = captured(lambda: x + x)
    assert program.name == "aten::add.Tensor"
    assert "stablehlo.add" in text
    before = torch.tpu.metrics().compiles
    assert captured(lambda: x + x) == [(program, text)]
    assert torch.tpu.metrics().compiles == before


def test_choices_are_those_of_a_tpu(captured: Captured) -> None:
    a = torch.ones(4, 4, dtype=torch.int64, device="tpu")
    ((_, text),) = captured(lambda: a @ a)
    products = [line for line in text.splitlines() if "stablehlo.dot_general" in line]
    assert products
    assert all("xi8>" in line and "xi64>" not in line for line in products)


def test_programs_of_the_backward_thread_are_captured(captured: Captured) -> None:
    x = torch.ones(3, device="tpu", requires_grad=True)
    names = [program.name for program, _ in captured(lambda: x.sin().sum().backward())]
    assert "aten::cos" in names


def test_refusals_are_captured(captured: Captured) -> None:
    a = torch.eye(3, device="tpu")
    ((program, _),) = captured(lambda: torch.linalg.eigvals(a))
    assert not program.digest
    assert "a TPU has no aten::_linalg_eigvals of float32" in program.refusal
    assert "cpu_fallback()" in program.refusal


def test_a_dtype_that_a_tpu_lacks_is_refused(captured: Captured) -> None:
    x = torch.ones(3, device="tpu")
    with pytest.raises(RuntimeError, match=r"the platform tpu has no torch.complex128"):
        captured(lambda: x.to(torch.complex128))
