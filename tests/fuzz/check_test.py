# SPDX-License-Identifier: Apache-2.0
"""Some random programs have the same results on tpu and the CPU, in each eager mode."""

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
    # Do not let XLA optimise: each program runs once, so that would cost more than it saves. JAX
    # reads the variable when it starts.
    os.environ.setdefault("XLA_FLAGS", XLA_FLAGS)
    from tests.fuzz.check import check

    findings = [
        str(finding)
        for seed in range(part, _SLICE, 3)
        for finding in check(seed, [mode], shrink=True)
    ]
    assert not findings, "\n".join(findings)
