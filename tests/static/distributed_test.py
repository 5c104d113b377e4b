# SPDX-License-Identifier: Apache-2.0
"""torch.distributed works in the static PAR, which lacks libuv, the TCP store's default backend."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pytest

from tests.static import program
from tools.par.testing.ports import reserved_port

_STORE = """
import torch.distributed as dist
store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
store.set("key", "value")
print(store.get("key").decode(), store.libuvBackend)
"""
_RPC = """
import torch.distributed, torch.distributed.rpc
print(torch.distributed.rpc.is_available(), torch.distributed.is_available())
"""
_GROUPS = """
import faulthandler, torch, torch.distributed as dist
faulthandler.dump_traceback_later(60, exit=True)
for turn in range(300):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()
print("ended")
"""
_WORKER = """
import json, pathlib, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
record = {"workers": dist.get_world_size(), "total": total.item()}
pathlib.Path(sys.argv[1], f"rank{dist.get_rank()}").write_text(json.dumps(record))
dist.destroy_process_group()
"""


def test_there_is_no_rpc(tmp_path: pathlib.Path) -> None:
    outcome = program.interpreter(tmp_path / "cache", "-c", _RPC)
    assert (outcome.status, outcome.out) == (0, "False True\n"), outcome.err


def test_a_store_is_made_as_anywhere(tmp_path: pathlib.Path) -> None:
    outcome = program.interpreter(tmp_path / "cache", "-c", _STORE)
    assert (outcome.status, outcome.out) == (0, "value False\n"), outcome.err


def test_a_group_ends_while_its_threads_let_go_of_tensors(tmp_path: pathlib.Path) -> None:
    outcome = program.interpreter(tmp_path / "cache", "-c", _GROUPS)
    assert (outcome.status, outcome.out) == (0, "ended\n"), outcome.err


@pytest.fixture
def port() -> Iterator[int]:
    with reserved_port() as number:
        yield number


@pytest.mark.parametrize("standalone", [True, False])
def test_torchrun_starts_workers_that_meet(
    standalone: bool, tmp_path: pathlib.Path, port: int
) -> None:
    meet = "--standalone" if standalone else f"--master-port={port}"
    script, records = tmp_path / "worker.py", tmp_path / "records"
    script.write_text(_WORKER, encoding="utf-8")
    records.mkdir()
    command = ["-m", "torch.distributed.run", "--nproc-per-node=2", meet]
    outcome = program.interpreter(
        tmp_path / "cache", *command, script, records, OMP_NUM_THREADS="1", TMPDIR=str(tmp_path)
    )
    assert outcome.status == 0, outcome.err
    results = {path.name: json.loads(path.read_text()) for path in records.iterdir()}
    assert results == {f"rank{rank}": {"workers": 2, "total": 3.0} for rank in range(2)}
