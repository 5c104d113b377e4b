# SPDX-License-Identifier: Apache-2.0
"""torch's own tool can read the files that the flight recorder writes."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from torch_google.tpu.release import V2_6
from torch_google.tpu.testing.ranks import Ranks, caught, shorten

_SIZE = 2


def _fail(rank: int, folder: str) -> str:
    os.environ["TORCH_FR_DUMP_TEMP_FILE"] = f"{folder}/rank_"
    dist.all_reduce(torch.ones(3, device="tpu"))
    if rank == 0:
        dist.send(torch.ones(2, device="tpu"), 1)
        return caught(lambda: dist.broadcast(torch.ones(5, device="tpu"), 0))[1]
    dist.recv(torch.ones(2, device="tpu"), 0)
    # This receive fails, because no rank sends a second message.
    return caught(lambda: dist.recv(torch.empty(2, device="tpu"), 0))[1]


def test_the_records_of_a_failure(tmp_path: Path) -> None:
    with Ranks(_SIZE) as ranks:
        ranks.run(shorten, 3.0)
        for rank, text in enumerate(ranks.run(_fail, str(tmp_path))):
            path = tmp_path / f"rank_{rank}"
            assert f"The last collectives of this rank are in {path}" in text
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content: dict[str, Any] = pickle.loads((tmp_path / "rank_0").read_bytes())
    entries = content["entries"]
    assert [entry["profiling_name"] for entry in entries] == [
        "gloo:all_reduce",
        "gloo:all_reduce",
        "gloo:send 0->1",
        "gloo:broadcast",
    ]
    assert [entry["state"] for entry in entries] == [*["completed"] * 3, "started"]
    assert entries[1]["input_sizes"] == [[3]]
    assert entries[3]["input_dtypes"] == ["Float"]
    assert any(frame["name"] == "_fail" for frame in entries[1]["frames"])
    if V2_6:  # this release does not have the tool
        return
    tool = (sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace")
    answer = subprocess.run(
        [*tool, str(tmp_path), "--prefix", "rank_"], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    # The tool reports the broadcast that only one rank called.
    assert "broadcast" in answer.stdout + answer.stderr
