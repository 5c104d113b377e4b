# SPDX-License-Identifier: Apache-2.0
"""A few random programs give the same results on the CPU and, in each eager mode, on tpu."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tools.par.testing.budget import examples, only_full
from torch_google.tpu.testing.quick_compiler import XLA_FLAGS

_SLICE = examples(21)


@pytest.mark.parametrize("mode", ["fused", *only_full("strict", "debug")])
@pytest.mark.parametrize("part", [0, *only_full(1, 2)])
def test_programs_agree(mode: str, part: int, record_property: Any) -> None:
    record_property("device", "tpu")
    # Turn off XLA's optimizations: each program runs only a few times, so optimizing it takes
    # longer than it saves. JAX reads XLA_FLAGS when it initializes, so set it before the import.
    os.environ.setdefault("XLA_FLAGS", XLA_FLAGS)
    from tests.fuzz.check import check

    findings = [
        str(finding)
        for seed in range(part, _SLICE, 3)
        for finding in check(seed, [mode], shrink=True)
    ]
    assert not findings, "\n".join(findings)
