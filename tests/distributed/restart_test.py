# SPDX-License-Identifier: Apache-2.0
"""Test that restarted programs use the compile cache, and load the checkpoints of killed ranks."""

from __future__ import annotations

import pathlib
import time

import pytest

from tests.distributed.launcher import CaseRanks


@pytest.mark.parametrize("case", ["ddp_gpt", "fsdp2_reshard_after_forward"])
@pytest.mark.parametrize("mode", ["strict", "fused"])
def test_the_second_run_compiles_nothing(case: str, mode: str, tmp_path: pathlib.Path) -> None:
    environment = {"TORCH_TPU_COMPILE_CACHE": str(tmp_path)}
    compiles = []
    for _ in range(2):
        with CaseRanks(2, environment=environment) as ranks:
            compiles.append(ranks.check(case, mode).compiles)
    assert compiles[0] > 20
    assert compiles[1] == 0


@pytest.mark.parametrize("delay", [0.0, 0.004, 0.02])
def test_ranks_killed_while_saving_leave_a_whole_checkpoint(
    delay: float, tmp_path: pathlib.Path
) -> None:
    with CaseRanks(2) as ranks:

        def ready() -> bool:
            progress = tmp_path / "saved0"
            if not progress.exists() or int(progress.read_text() or 0) < 3:
                return False
            time.sleep(delay)
            return True

        ranks.kill_when(ready, "dcp_save_forever", "strict", tmp_path)
        ranks.check("dcp_load_what_is_whole", "strict", tmp_path)
