# SPDX-License-Identifier: Apache-2.0
"""Test that the `refused` check reports samples that the CPU rejects and the device accepts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.conformance import samples
from tests.conformance.rows import Outcome, Row
from tests.conformance.trial import attempt
from torch_google.tpu import autoload

autoload()


class _Operator:
    """A fake op_db entry that declares only float32 and has samples of three sizes."""

    def __init__(self, op: Callable[[torch.Tensor], Any]) -> None:
        self.op = op
        self.name, self.variant_test_name = "fake", ""
        self.dtypes = {torch.float32}

    def sample_inputs(self, device: str, dtype: torch.dtype, requires_grad: bool) -> Any:
        from torch.testing._internal.opinfo.core import SampleInput

        yield from (SampleInput(torch.ones(size, dtype=dtype, device=device)) for size in (1, 2, 3))


def _row(op: Callable[[torch.Tensor], Any], dtype: torch.dtype, count: int | None = 3) -> Row:
    return list(attempt(_Operator(op), dtype, "refused", count))[-1][0]


def test_a_dtype_that_both_refuse_passes() -> None:
    row = _row(lambda x: x.softmax(0), torch.int64)
    assert (row.outcome, row.samples, row.passed, row.taken) == (Outcome.PASSED, 3, 3, 3)


def test_a_sample_that_the_cpu_accepts_does_not_count() -> None:
    row = _row(lambda x: x.softmax(0), torch.float16)
    assert (row.outcome, row.samples, row.taken) == (Outcome.EMPTY, 0, 3)


@pytest.mark.parametrize(
    ("error", "message"),
    [(None, "accepted, expected"), (ValueError("no"), "ValueError: no, expected")],
)
def test_another_answer_of_the_device_is_wrong(error: Exception | None, message: str) -> None:
    def refuse(x: torch.Tensor) -> torch.Tensor:
        if x.device.type == "cpu":
            raise NotImplementedError("never")
        if error is not None:
            raise error
        return x

    row = _row(refuse, torch.complex64, 2)
    assert (row.outcome, row.samples, row.passed, row.first) == (Outcome.WRONG, 2, 0, 0)
    assert row.message.startswith(f"sample 0: {message} NotImplementedError: never"[:40])


def test_samples_are_cast_to_a_dtype_that_is_not_declared() -> None:
    op = _Operator(lambda x: x)
    assert [s.args[0].dtype for s in samples.first(op, torch.int8, 2)] == [torch.int8] * 2
    assert len(samples.first(op, torch.float32, None)) == 3
    op.dtypes = set()
    assert samples.source_of(op, torch.int8) is None
