# SPDX-License-Identifier: Apache-2.0
"""The command starts its ranks, and writes a figure for each case that it measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def test_the_command_measures(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    arguments = ("--rounds=5", "--cases", "all_reduce, 1 KiB", f"--json={path}")
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.collectives", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0, result.stderr
    figures = json.loads(path.read_text())["figures"]
    assert [each["case"] for each in figures] == [
        "all_reduce, 1 KiB, 2 ranks",
        "parameters and optimizer of a rank, 2 ranks",
    ]
    assert figures[0]["wall_seconds"] > 0
