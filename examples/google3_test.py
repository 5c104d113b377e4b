# SPDX-License-Identifier: Apache-2.0
"""Run google3 as a user would, and test its log, output, help and errors."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from examples import model

_PAR = Path(__file__).with_name("google3.par")
_COMMAND = [str(_PAR)] if _PAR.exists() else [sys.executable, "-m", "examples.google3"]


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_two_workers_learn_and_leave_a_checkpoint(tmp_path: Path, method: str) -> None:
    output, logs = tmp_path / "new" / "run", tmp_path / "logs"
    result = _run(
        f"--output={output}",
        f"--multiprocessing_start_method={method}",
        f"--torch_log_directory={logs}",
    )
    assert result.returncode == 0, result.stderr
    text = "".join(path.read_text() for path in logs.iterdir())
    for rank in range(2):
        assert re.search(rf"^I.*\[rank {rank}, .*\] epoch 5: loss \d", text, re.MULTILINE), text
    match = re.search(r"test accuracy (0\.\d+), 2 workers", text)
    assert match is not None
    assert float(match[1]) >= 0.9
    assert [path.name for path in output.iterdir()] == ["checkpoint.pt"]
    weights = torch.load(output / "checkpoint.pt", weights_only=True)
    model.DigitNet().load_state_dict(weights)


def test_a_mistake_in_a_flag_starts_nothing() -> None:
    result = _run("--epochs=none")
    assert result.returncode == 1
    assert "flag --epochs=none" in result.stderr


def test_a_worker_that_fails_is_in_the_log() -> None:
    result = _run("--output=/proc/version/run", "--epochs=1", "--multiprocessing_start_method=fork")
    assert result.returncode == 1
    assert re.search(
        r"^E.*\] failed \(exitcode: 1\) local_rank: 0 .*\nTraceback", result.stderr, re.MULTILINE
    )
    assert re.search(r"ProcessFailedError: process worker-0 .*/proc/version/run", result.stderr)


def test_helpfull_is_readable() -> None:
    result = _run("--helpfull")
    assert result.returncode == 1  # absl exits with 1 after --help.
    for flag in (
        "--workers:",
        "--[no]torch_dynamo_suppress_errors",
        "--multiprocessing_start_method:",
    ):
        assert flag in result.stdout
    assert "\x1b" not in result.stdout
