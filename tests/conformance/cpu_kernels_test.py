# SPDX-License-Identifier: Apache-2.0
"""Test that torch's CPU kernels and compiled programs give the same results on the device.

The other tests in this directory compare only the results of compiled programs with the CPU's. The
samples come from op_db. The default run covers one sample of each of some operators, and the full
run covers at most 24 samples of each operator: a few operators have thousands.
"""

from __future__ import annotations

import os

import pytest
import torch

from tests.conformance import two_ways

# The default run covers about this many operators.
_PARTS = 31


@pytest.fixture(scope="module", autouse=True)
def _device() -> None:
    from torch_google.tpu import autoload
    from torch_google.tpu.testing import quick_compiler

    quick_compiler.use()
    os.environ.setdefault("TORCH_TPU_PLATFORM", "cpu")
    autoload()
    torch.tpu.init()


@pytest.mark.parametrize(("name", "dtype"), two_ways.selected(_PARTS), ids=str)
def test_both_ways_agree(name: str, dtype: torch.dtype) -> None:
    two_ways.compare(
        name, dtype, torch.tpu.set_cpu_kernels, count=1, full_count=24, storage_sizes=True
    )
