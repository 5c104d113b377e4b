# SPDX-License-Identifier: Apache-2.0
"""A PAR starts child processes that run the same PAR: data loaders, spawn, gloo, torchrun."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import zipfile

import pytest
import torch
import torch.multiprocessing
from torch.utils.data import DataLoader

from tests.par import workers

_PACKED = zipfile.is_zipfile(sys.executable)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_data_loader_with_two_workers(method: str) -> None:
    loader = DataLoader(
        workers.Squares(10), batch_size=3, num_workers=2, multiprocessing_context=method
    )
    assert torch.cat(list(loader)).flatten().tolist() == [n * n for n in range(10)]


def test_spawn_shares_memory() -> None:
    shared = torch.zeros(2).share_memory_()
    torch.multiprocessing.spawn(workers.add_rank, args=(shared,), nprocs=2)
    assert shared.tolist() == [1.0, 2.0]


@pytest.mark.full
def test_spawn_reports_a_workers_exception() -> None:
    with pytest.raises(torch.multiprocessing.ProcessRaisedException, match="worker 0 says no"):
        torch.multiprocessing.spawn(workers.fail, nprocs=1)


@pytest.mark.full
def test_gloo_all_reduce(tmp_path: pathlib.Path) -> None:
    results = torch.zeros(2, 3).share_memory_()
    torch.multiprocessing.spawn(
        workers.all_reduce, args=(2, str(tmp_path / "rendezvous"), results), nprocs=2
    )
    assert results.tolist() == [[3.0] * 3] * 2


_TORCHRUN = ["--standalone", "--nproc-per-node=2", "-m", "tests.par.workers"]


@pytest.mark.full
def test_torchrun_as_a_module(tmp_path: pathlib.Path) -> None:
    _launch([sys.executable, "-m", "torch.distributed.run", *_TORCHRUN], tmp_path, {})


@pytest.mark.skipif(not _PACKED, reason="only a packed PAR supports PAR_MAIN")
def test_torchrun_through_par_main(tmp_path: pathlib.Path) -> None:
    # Started through the link sys.executable, a PAR acts as a Python interpreter. PAR_MAIN has an
    # effect only if the PAR is started by its real path.
    par = os.path.realpath(sys.executable)
    _launch([par, *_TORCHRUN], tmp_path, {"PAR_MAIN": "torch.distributed.run"})


def _launch(command: list[str], folder: pathlib.Path, extra: dict[str, str]) -> None:
    answer = subprocess.run(
        [*command, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **extra},
    )
    assert answer.returncode == 0, answer.stderr
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "rank0": "3",
        "rank1": "3",
    }
