# SPDX-License-Identifier: Apache-2.0
"""The modules and optimizers in torch's test tables pass, except those in exceptions.json.

Each is tested on its first two samples.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.upstream import configurations, exceptions, modules, optimizers, run
from tests.upstream.row import Outcome, Row

KNOWN = exceptions.load()
ROWS = [row for row in modules.rows() if row.dtype != torch.float64]
ROWS += [row for row in optimizers.rows() if row.dtype == torch.float32]
ROWS += [row for row in configurations.rows() if row.dtype == torch.float32]


@pytest.fixture(autouse=True)
def _device(record_property: Callable[[str, object], None]) -> None:
    """Record for `tools/presubmit/account.py` that these tests run on tpu."""
    record_property("device", "tpu")


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row(row: Row) -> None:
    torch.set_num_threads(1)
    result = run.judge(row, 2)
    if result.outcome is Outcome.EMPTY:
        pytest.skip("the CPU refuses every sample")
    if KNOWN.reason(row):
        assert result.outcome is not Outcome.PASSED, f"{row} passes: see exceptions.json"
    else:
        assert result.outcome is Outcome.PASSED, result.message
