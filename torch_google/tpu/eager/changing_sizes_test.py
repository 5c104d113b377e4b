# SPDX-License-Identifier: Apache-2.0
"""A size that keeps changing causes a single warning that reports the operator and dimension."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import torch

from torch_google.tpu.eager import changing_sizes


@pytest.fixture(autouse=True)
def _programs() -> Iterator[None]:
    before = torch.tpu.get_cpu_kernels()
    torch.tpu.set_cpu_kernels(False)
    yield
    torch.tpu.set_cpu_kernels(before)


def test_the_warning_appears_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(changing_sizes, "MOST_SIZES", 4)
    monkeypatch.setattr(changing_sizes, "SIZES", changing_sizes.ChangingSizes())
    caplog.set_level(logging.WARNING)
    x = torch.ones(3, 40, device="tpu")
    for size in (5, 6, 7):
        torch.digamma(x[:, :size].clone())
    assert not caplog.records
    for size in (8, 9, 10, 11, 12, 13):
        torch.digamma(torch.erfinv(x[:, :size].clone()))
    (record,) = caplog.records
    text = record.getMessage()
    assert "has 4 programs, because size 1 of tensor argument 0 changes" in text
    assert "torch.tpu.set_size_buckets(True) avoids that" in text
    assert "changing_sizes_test.py" in text


def test_the_message_names_the_size_with_the_most_values() -> None:
    shapes = [((2, size), (size % 2, 3)) for size in range(5, 9)]
    text = changing_sizes.message("aten::cat", shapes, "Pad it")
    assert "aten::cat has 4 programs, because size 1 of tensor argument 0 changes" in text
    assert "(now 6, 7, 8)" in text
