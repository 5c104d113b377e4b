# SPDX-License-Identifier: Apache-2.0
"""Some of torch's own distributed tests pass on tpu, or fail for a known reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.upstream.distributed import catalogue, comparison, run
from tools.par.testing.budget import only_full

# The first file is fast enough to run by default: few of its tests start ranks as processes.
_FILES = (
    "_composable/fsdp/test_fully_shard_state",
    *only_full(
        "tensor/parallel/test_tp_style",
        "_composable/fsdp/test_fully_shard_init",
        "_tensor/test_dtensor",
        "checkpoint/test_dtensor_resharding",
        "pipelining/test_schedule",
    ),
)


@pytest.mark.parametrize("file", _FILES)
def test_a_file_passes_on_the_device(file: str, tmp_path: Path) -> None:
    for device in catalogue.DEVICES:
        run.run_files([file], device, tmp_path)
    rows = comparison.judge(comparison.collect(tmp_path))
    failed = [
        f"{row.name}: {row.reason}" for row in rows if row.verdict is comparison.Verdict.FAILED
    ]
    assert not failed, "\n".join(failed)
    assert sum(row.applies for row in rows) >= 5
