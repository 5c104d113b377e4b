# SPDX-License-Identifier: Apache-2.0
"""Child processes start and exit fast.

No garbage collection scans torch's objects, and no teardown runs.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from torch.utils.data import DataLoader

from tests.par import starts

_COMMANDS = {
    "-m": ["-m", "tests.par.starts"],
    "-c": ["-c", "from tests.par import starts; starts.main()"],
    "torchrun": [
        *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1"),
        *("-m", "tests.par.starts"),
    ],
}


@pytest.mark.parametrize("kind", _COMMANDS)
def test_an_interpreter_starts_fast(tmp_path: pathlib.Path, kind: str) -> None:
    output, mark = tmp_path / "output", tmp_path / "mark"
    command = [sys.executable, *_COMMANDS[kind], str(output), str(mark)]
    subprocess.run(command, check=True)
    assert (output.read_text(), mark.exists()) == ("0", False)
    subprocess.run(command, check=True, env={**os.environ, "PAR_FAST_EXIT": "0"})
    assert mark.exists(), "the teardown left no mark"


def test_a_data_loaders_worker_starts_fast(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    loader = DataLoader(starts.Start(str(mark)), num_workers=1, multiprocessing_context="spawn")
    (scans,) = list(loader)  # Read all items, so that the worker exits.
    assert (scans.item(), mark.exists()) == (0, False)
    monkeypatch.setenv("PAR_FAST_EXIT", "0")
    list(loader)
    assert mark.exists(), "the teardown left no mark"
