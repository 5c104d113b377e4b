# SPDX-License-Identifier: Apache-2.0
"""The `xla` transport works with devices that belong to several processes.

In a full test run, `collectives_test` and `errors_test` also cover this transport.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from tools.par.testing.budget import only_full
from tools.par.testing.ports import reserved_port
from torch_google.tpu import _C
from torch_google.tpu.collectives.transport import Transport
from torch_google.tpu.release import V2_6
from torch_google.tpu.testing.ranks import Ranks, caught, shorten, wait_for_file

_SIZE = 2
_XLA = {"TORCH_TPU_COLLECTIVES": "xla"}
_STEPS = 3
_STALL = 5.0  # the timeout of a program that does not end, in seconds
_PATIENCE = 300.0  # seconds


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    with Ranks(_SIZE, environ=_XLA) as started:
        yield started


def _ones(*sizes: int) -> torch.Tensor:
    return torch.ones(sizes, device="tpu")


# ---- Collectives


def _platform(rank: int) -> list[Any]:
    value = torch.arange(3.0, device="tpu") + rank
    dist.all_reduce(value)
    devices = _C.value(value).sharding.num_devices
    return [jax.process_count(), len(jax.devices()), devices, value.tolist()]


def test_the_platform_has_the_devices_of_all_processes(ranks: Ranks) -> None:
    assert ranks.run(_platform) == [[_SIZE, _SIZE, 1, [1.0, 3.0, 5.0]]] * _SIZE


def _views(rank: int) -> list[Any]:
    # The ranks pass the same number of elements, but with different shapes and strides.
    whole = torch.arange(12.0, device="tpu").reshape(3, 4)
    part = [whole[:, 1:3], whole.t()[:2]][rank]
    dist.all_reduce(part)
    scalar = torch.tensor(rank + 0.5, device="tpu")
    dist.all_reduce(scalar, op=dist.ReduceOp.MAX)
    return [whole.tolist(), scalar.item()]


def test_views_that_differ_between_ranks(ranks: Ranks) -> None:
    expected = [torch.arange(12.0).reshape(3, 4) for _ in range(_SIZE)]
    parts = [expected[0][:, 1:3], expected[1].t()[:2]]
    total = parts[0].reshape(-1) + parts[1].reshape(-1)
    for part in parts:
        part.copy_(total.reshape(part.shape))
    assert ranks.run(_views) == [[each.tolist(), 1.5] for each in expected]


def _exact(rank: int) -> list[Any]:
    # A broadcast is computed as a sum, so the other ranks must not add 0.0 to -0.0. For bools, the
    # sum is a logical "or".
    value = torch.tensor([-0.0, 1.0, float("nan")], device="tpu") + rank
    value = value if rank == 0 else torch.full((3,), -0.0, device="tpu")
    dist.broadcast(value, 1)
    flags = torch.tensor([True, False], device="tpu") ^ bool(rank)
    dist.broadcast(flags, 0)
    return [str(value.tolist()), flags.tolist()]


def test_broadcast_is_exact(ranks: Ranks) -> None:
    assert ranks.run(_exact) == [["[-0.0, -0.0, -0.0]", [True, False]]] * _SIZE


def _two_groups(rank: int) -> list[Any]:
    reverse = dist.new_group([1, 0])
    alone = [dist.new_group([peer]) for peer in range(_SIZE)][rank]
    value = torch.arange(5.0, device="tpu") + rank
    works = []
    for _ in range(3):  # the threads of the groups must not change the order of the programs
        works += [dist.all_reduce(value, group=group, async_op=True) for group in (None, reverse)]
    for work in works:
        work.wait()
    own = _ones(2)
    dist.all_reduce(own, group=alone)
    return [value.tolist(), own.tolist()]


def test_groups_take_turns(ranks: Ranks) -> None:
    total = [32.0 * (2 * index + 1) for index in range(5)]
    assert ranks.run(_two_groups) == [[total, [1.0, 1.0]]] * _SIZE


def _programs(rank: int) -> list[int]:
    counts = []
    for turn in range(3):
        value = torch.full((7, 3), float(rank + turn), device="tpu")
        dist.all_reduce(value)
        value.cpu()
        counts.append(torch.tpu.metrics().compiles)
    return counts


def test_a_collective_is_one_program(ranks: Ranks) -> None:
    for first, *later in ranks.run(_programs):
        assert later == [first, first]


# ---- Mismatched calls and failures


def _disagree(rank: int) -> tuple[str, str]:
    error = caught(lambda: dist.all_reduce(_ones(5 + rank)))
    value = _ones(3)
    dist.all_reduce(value)
    assert value.tolist() == [2.0] * 3
    return error


def test_a_disagreement_is_an_error_on_every_rank(ranks: Ranks) -> None:
    for name, text in ranks.run(_disagree):
        assert name == "DistBackendError"
        assert "rank 1: all_reduce SUM of float32[6]" in text
        assert "No data was moved, and the group can still be used" in text


def _late(rank: int, called: str) -> list[float]:
    """Let rank 1 join the collective only after rank 0's call has returned."""
    if rank == 1:
        wait_for_file(called)
    value = _ones(4)
    work = dist.all_reduce(value, async_op=True)
    if rank == 0:
        Path(called).touch()
    work.wait()
    return value.tolist()


def test_a_late_rank_does_not_delay_the_call_of_another(ranks: Ranks, tmp_path: Path) -> None:
    assert ranks.run(_late, str(tmp_path / "called")) == [[2.0] * 4] * _SIZE


def _reduce(rank: int) -> tuple[str, str]:
    value = _ones(6000)
    return caught(lambda: [dist.all_reduce(value), value.tolist()])


def _alive(rank: int) -> list[float]:
    return (_ones(2) + rank).tolist()


def test_a_rank_that_is_killed() -> None:
    # Kill rank 1. If rank 0 died, JAX would abort the other processes, because rank 0 runs JAX's
    # coordinator.
    with Ranks(_SIZE, environ=_XLA) as ranks:
        ranks.run(_reduce)
        ranks.signal(1, signal.SIGSTOP)
        ranks.start(_reduce)
        time.sleep(0.5)
        ranks.signal(1, signal.SIGKILL)
        name, text = ranks.result(0)
        assert name == "DistBackendError"
        assert "rank 1: no answer" in text
        ranks.start(_alive)
        assert ranks.result(0) == [1.0, 1.0]


def _stall(rank: int, failed: str) -> tuple[str, str]:
    """Let the ranks agree on a collective, then stall rank 1 until rank 0 has received an error.

    Rank 1 starts the collective's program only after that.
    """
    if rank == 1:
        prepare = Transport.prepare

        def late(*args: Any) -> Any:
            run = prepare(*args)

            def stalled(*sizes: Any) -> Any:
                wait_for_file(failed)
                time.sleep(_STALL)  # the timeout must also have passed on this rank
                return run(*sizes)

            return stalled

        Transport.prepare = late  # type: ignore[assignment, method-assign]
    error = _reduce(rank)
    if rank == 0:
        Path(failed).touch()
    return error


@pytest.mark.full
def test_a_program_that_does_not_end(tmp_path: Path) -> None:
    with Ranks(_SIZE, environ=_XLA) as ranks:
        ranks.run(_reduce)
        ranks.run(shorten, _STALL)
        (name, text), (other, _) = ranks.run(_stall, str(tmp_path / "failed"))
        assert name == other == "DistBackendError"
        assert "the device has not ended it within the timeout" in text


def _second_device(rank: int) -> list[Any]:
    value = torch.arange(3.0, device="tpu:1") + rank
    dist.all_reduce(value)
    with torch.tpu.device(1):
        group = dist.new_group(list(range(_SIZE)))
    other = torch.arange(3.0, device="tpu:1") + rank
    dist.all_reduce(other, group=group)
    return [str(value.device), value.tolist(), str(other.device), other.tolist()]


@pytest.mark.full
def test_processes_with_several_devices() -> None:
    with Ranks(_SIZE, environ={**_XLA, "TORCH_TPU_CPU_DEVICES": "2"}) as ranks:
        expected = ["tpu:1", [1.0, 3.0, 5.0]] * 2
        assert ranks.run(_second_device) == [expected] * _SIZE


# ---- Initialization of the JAX backend

_PROGRAM = """
import os, sys, torch, torch.distributed as dist
sys.last_value = ValueError("an error that the program survived")
from torch_google.tpu import registration
registration.register()
if "tensor first" in sys.argv:
    value = torch.ones(3, device="tpu")
if "store" in sys.argv:
    store = dist.FileStore(sys.argv[-1], 2)
    dist.init_process_group(store=store, rank=int(os.environ.pop("ORDER")), world_size=2)
else:
    dist.init_process_group()
value = torch.full((3,), 1.0 + dist.get_rank(), device="tpu")
dist.all_reduce(value)
print(value.tolist(), flush=True)
dist.destroy_process_group()
"""


@pytest.fixture
def port() -> Iterator[str]:
    with reserved_port() as number:
        yield str(number)


def _start(environ: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _PROGRAM, *arguments],
        env={**os.environ, **environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _torchrun(rank: int, port: str) -> dict[str, str]:
    return {
        **_XLA,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(_SIZE),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }


@pytest.mark.parametrize("order", ["tensor first", *only_full("group first")])
def test_the_variables_of_torchrun_suffice(order: str, port: str) -> None:
    processes = [_start(_torchrun(rank, port), order) for rank in range(_SIZE)]
    for process in processes:
        output, errors = process.communicate(timeout=_PATIENCE)
        assert process.returncode == 0, errors
        assert output.splitlines()[-1] == "[3.0, 3.0, 3.0]"


@pytest.mark.full
def test_a_platform_that_runs_already_is_an_error(tmp_path: Path) -> None:
    process = _start({**_XLA, "ORDER": "0"}, "tensor first", "store", str(tmp_path / "store"))
    _, errors = process.communicate(timeout=_PATIENCE)
    assert process.returncode == 1
    assert (
        "RuntimeError: tpu: torch.distributed: JAX's platform has 1 of the 2 processes, so the "
        "transport xla cannot start. Call torch.distributed.init_process_group() before the first "
        "tensor on the device"
    ) in errors


@pytest.mark.full
def test_ranks_with_different_transports(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    host = _start({"TORCH_TPU_COLLECTIVES": "host", "ORDER": "1"}, "store", store)
    xla = _start({**_XLA, "ORDER": "0"}, "store", store)
    for process, rank, others in ((xla, 0, "host"), (host, 1, "xla")):
        _, errors = process.communicate(timeout=_PATIENCE)
        assert process.returncode == 1
        assert (
            f"ValueError: tpu: init_process_group: rank {1 - rank} of the group uses the transport "
            f"{others}, and rank {rank} uses {'xla' if others == 'host' else 'host'}. Set "
            "TORCH_TPU_COLLECTIVES to the same value on all ranks"
        ) in errors


_TWO_HOSTS = r"""
set -e
mount -t tmpfs none /run
mkdir /run/netns
printf '127.0.0.1 localhost\n10.9.0.1 hosta\n10.9.0.2 hostb\n' > /run/hosts
mount --bind /run/hosts /etc/hosts
for host in a b; do
  ip netns add $host
  ip -n $host link set lo up
done
ip link add wirea netns a type veth peer name wireb netns b
ip -n a addr add 10.9.0.1/24 dev wirea
ip -n b addr add 10.9.0.2/24 dev wireb
ip -n a link set wirea up
ip -n b link set wireb up
start() {
  RANK=$1 nsenter --net=/run/netns/$2 unshare -u sh -c "hostname host$2; exec \"\$@\"" sh "$3" -c "$4"
}
start 0 a "$@" & first=$!
start 1 b "$@"
wait $first
"""


def _has_namespaces() -> bool:
    command = ["unshare", "-rnmu", "ip", "netns", "list"]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@pytest.mark.full
@pytest.mark.skipif(not _has_namespaces(), reason="this machine creates no network namespaces")
def test_two_hosts() -> None:
    done = subprocess.run(
        ["unshare", "-rnm", "bash", "-c", _TWO_HOSTS, "bash", sys.executable, _PROGRAM],
        env={
            **os.environ,
            **_XLA,
            "LOCAL_RANK": "0",
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "10.9.0.1",
            "MASTER_PORT": "29511",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("[3")]
    assert lines == ["[3.0, 3.0, 3.0]"] * 2


# ---- Models


def _net(device: str) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).to(device)


def _batch(rank: int, step: int, device: str) -> torch.Tensor:
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(10 * step + rank)).to(device)


def _trained(wrapped: nn.Module, rank: int) -> list[float]:
    optimizer = torch.optim.AdamW(wrapped.parameters(), 1e-2, foreach=False)
    losses = []
    for step in range(_STEPS):
        optimizer.zero_grad()
        loss = wrapped(_batch(rank, step, "tpu")).square().mean()
        loss.backward()
        optimizer.step()
        dist.all_reduce(total := loss.detach().clone(), op=dist.ReduceOp.AVG)
        losses.append(total.item())
    return losses


def _ddp(rank: int, mode: str) -> list[float]:
    with torch.tpu.eager_mode(mode):
        return _trained(DistributedDataParallel(_net("tpu")), rank)


def _fsdp(rank: int, mode: str) -> list[float]:
    with torch.tpu.eager_mode(mode):
        model = _net("tpu")
        for layer in (model[0], model[2], model):
            fully_shard(layer, mesh=dist.init_device_mesh("tpu", (_SIZE,)))
        return _trained(model, rank)


def _alone() -> list[float]:
    """Train on the batches of all ranks in one process, on the CPU, and return the losses."""
    model = _net("cpu")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2, foreach=False)
    losses = []
    for step in range(_STEPS):
        optimizer.zero_grad()
        x = torch.cat([_batch(rank, step, "cpu") for rank in range(_SIZE)])
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("mode", ["strict", *only_full("fused", "debug")])
@pytest.mark.parametrize(
    "case",
    [
        _ddp,
        pytest.param(
            _fsdp,
            marks=pytest.mark.skipif(
                V2_6, reason="v2.6 lacks features that fully_shard needs on a new device"
            ),
        ),
    ],
)
def test_losses_equal_those_of_one_process(ranks: Ranks, case: Any, mode: str) -> None:
    for losses in ranks.run(case, mode):
        assert losses == pytest.approx(_alone(), abs=1e-6)


# ---- The compile cache


def _cached(rank: int, directory: str) -> list[int]:
    torch.tpu.set_compile_cache(directory)
    for length in (3, 4):
        value = torch.arange(float(2 * length), device="tpu").reshape(2, length) + rank
        dist.all_reduce(value)
        part = torch.empty(length, device="tpu")
        dist.reduce_scatter_tensor(part, value.reshape(-1))
        dist.broadcast(part[1:], 1)
        part.cpu()
    metrics = torch.tpu.metrics()
    return [metrics.compiles, metrics.disk_hits]


@pytest.mark.filterwarnings("ignore:.*reduce_scatter_tensor")
def test_other_processes_compile_nothing(tmp_path: Path) -> None:
    counts = []
    for _ in range(2):
        with Ranks(_SIZE, environ=_XLA) as ranks:
            counts.append(ranks.run(_cached, str(tmp_path)))
    for compiles, hits in counts[1]:
        assert compiles == 0
        assert hits > 0
