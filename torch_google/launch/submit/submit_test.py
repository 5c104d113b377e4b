# SPDX-License-Identifier: Apache-2.0
"""Submit a real PAR on this machine; check all ranks' logs, exit status, failures and Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from torch_google.launch.submit import local, main, slurm
from torch_google.launch.submit.scheduler import Job
from torch_google.launch.testing import waiting

_PROGRAM = Path(__file__).parents[1] / "testing/sum.par"
_SUBMIT = (
    "from torch_google.launch.submit.main import main; import sys; sys.exit(main(sys.argv[1:]))"
)
_SRUN = """\
#!/bin/sh
echo "$PAR_MAIN $TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"
printf '%s\\n' "$@"
exit 7
"""


def _submit(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _SUBMIT, f"--par={_PROGRAM}", *arguments],
        env=dict(os.environ, PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_logs_of_all_ranks_are_one_stream() -> None:
    process = _submit("--machines=2", "--processes=2", "--", "a")
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, output + errors
    rows = [re.fullmatch(r"\[(\d)\] ?(\{.*\})", line) for line in output.splitlines()]
    seen = {int(row[1]): json.loads(row[2]) for row in rows if row}
    assert sorted(seen) == [0, 1, 2, 3], output
    for rank, row in seen.items():
        assert (row["rank"], row["sum"], row["arguments"]) == (rank, 10.0, ["a"])
    assert "started sum.par: 4 ranks on 2 machines" in errors
    assert errors.endswith("submit: succeeded\n")


def test_a_failure_of_one_rank_ends_the_job() -> None:
    process = _submit("--machines=2", "--", "fail-in-rank-1")
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 1, output + errors
    assert "machine 1 failed with status 1; ending the others" in errors
    assert "asked to fail" in output


@pytest.mark.full
def test_a_job_goes_on_without_a_machine() -> None:
    elastic = ["--machines=2", "--min-machines=1", "--max-restarts=3"]
    process = _submit(*elastic, "--", "lose-machine-1")
    output, errors = process.communicate(timeout=500)
    assert process.returncode == 0, output + errors
    assert "machine 1 failed with status 137; the others go on" in errors
    # Only one process is left, so the sum over all ranks is rank 0's value.
    assert '"rank": 0, "sum": 1.0' in output
    assert errors.endswith("submit: succeeded\n")


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.full)]
)
def test_a_signal_cancels_the_job(number: signal.Signals, tmp_path: Path) -> None:
    process = _submit("--processes=2", "--", f"wait-with-pid-in={tmp_path}")
    pids = waiting.wait_for_pids(tmp_path, 2, process, seconds=300)
    process.send_signal(number)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 128 + number, output + errors
    assert errors.endswith("submit: cancelled\n")
    assert len(pids) == 2, output + errors
    assert not any(map(waiting.is_alive, pids)), output + errors


def test_no_other_process_gets_the_port_before_torchrun() -> None:
    with local._reserved_port() as port:
        with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
            other.bind(("127.0.0.1", port))
        # torchrun can bind the port: like torch's TCPStore, create_server sets SO_REUSEADDR.
        socket.create_server(("127.0.0.1", port)).close()


def test_slurm_gets_one_task_per_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    srun = tmp_path / "srun"
    srun.write_text(_SRUN)
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    options = ["--scheduler=slurm", "--machines=2", "--processes=4", "--option=--partition=main"]
    assert main.main(["--par=/shared/x.par", *options, "--", "--epochs=1"]) == 7
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "torch_google.launch [${rank}] "
    assert (
        lines[1:]
        == slurm.command(Job(Path("/shared/x.par"), ("--epochs=1",), 2, 4), ["--partition=main"])[
            1:
        ]
    )
    assert "--ntasks-per-node=1" in lines
    elastic = slurm.command(Job(Path("x.par"), (), 4, fewest=2, restarts=3), [])
    assert {"--kill-on-bad-exit=0", "--no-kill", "--nnodes=2:4", "--max-restarts=3"} <= {*elastic}
    assert "--kill-on-bad-exit=1" not in elastic


_KILLED = "srun: error: n[2-3]: tasks 1-2: Killed"
_DUMPED = "srun: error: n4: task 3: Segmentation fault (core dumped)"
_FAILED = "srun: error: n4: task 3: Exited with exit code 3"
_LOST = "srun: error: Node failure on n4"


@pytest.mark.parametrize(
    ("spare", "lines", "status"),
    [
        (0, [], 9),
        (0, ["[0] srun: error: n4: task 3: Killed", "srun: error: Unable to allocate"], 9),
        (0, [_FAILED, _KILLED], 3),
        (0, [_DUMPED, _KILLED], 139),
        (1, [_LOST, _LOST], 0),
        (2, [_KILLED], 0),
        (2, [_LOST, _KILLED], 137),
        (2, [_FAILED, _LOST, _KILLED], 3),
    ],
)
def test_messages_of_srun_give_the_status_of_the_job(
    spare: int, lines: list[str], status: int
) -> None:
    failures = slurm.Failures(spare)
    for line in lines:
        failures.read(line + "\n")
    assert failures.status(9) == status


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--machines=0"], 1, "submit: --machines=0: expected 1 or more"),
        (["--min-machines=2"], 1, "submit: --min-machines=2: expected 1 to 1"),
        (["--max-restarts=-1"], 1, "submit: --max-restarts=-1: expected 0 or more"),
        (
            ["--scheduler=kubernetes", "--min-machines=1"],
            1,
            "submit: --scheduler=kubernetes takes neither --min-machines",
        ),
        (["--option=--x"], 1, "submit: --option=--x: --scheduler=local takes no options"),
        (["--scheduler=slurm"], 3, "submit: srun is not on PATH"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str],
    status: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", "")
    assert main.main(["--par=x.par", *arguments]) == status
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert error.count("\n") == 1
