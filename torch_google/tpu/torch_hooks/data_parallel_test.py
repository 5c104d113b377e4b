# SPDX-License-Identifier: Apache-2.0
"""Tests that results of torch.nn.parallel on several devices in one process match the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch.nn.parallel import comm

from torch_google.tpu.release import V2_6
from torch_google.tpu.torch_hooks import data_parallel

_SEVERAL = pytest.mark.skipif(
    V2_6, reason="torch v2.6 runs the replicas of several devices on streams of CUDA"
)
_START = """
import copy, torch
from torch import nn
from torch.nn.parallel import comm, data_parallel, gather, parallel_apply, replicate, scatter
import torch_google.tpu
torch_google.tpu.autoload()
"""


def _run(program: str) -> list[str]:
    """Run a program in a process with two devices, and return its output lines."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _START + program],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "TORCH_TPU_PLATFORM": "cpu",
            "TORCH_TPU_CPU_DEVICES": "2",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_one_device() -> None:
    torch.manual_seed(0)
    module = torch.nn.Linear(2, 3)
    expected = module(torch.ones(4, 2)).detach()
    parallel_module = torch.nn.DataParallel(module)
    actual = parallel_module(torch.ones(4, 2, device="tpu"))
    assert module.weight.device == torch.device("tpu:0")
    torch.testing.assert_close(actual.detach().cpu(), expected)
    actual.sum().backward()
    assert module.weight.grad is not None
    torch.testing.assert_close(module.weight.grad.cpu(), torch.full((3, 2), 4.0))


@pytest.mark.full
@_SEVERAL
def test_two_devices_train_as_the_cpu_does() -> None:
    program = """
torch.manual_seed(0)
for batch in (1, 2, 5):
    for output in (None, 1):
        network = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        on_device = copy.deepcopy(network).to("tpu")
        x = torch.randn(batch, 3, requires_grad=True)
        y = x.detach().to("tpu").requires_grad_()
        network(x).square().sum().backward()
        result = nn.DataParallel(on_device, device_ids=[0, 1], output_device=output)(y)
        result.square().sum().backward()
        torch.testing.assert_close(y.grad.cpu(), x.grad)
        for one, other in zip(network.parameters(), on_device.parameters()):
            torch.testing.assert_close(other.grad.cpu(), one.grad)
        print(batch, result.device)
"""
    assert _run(program) == [f"{batch} tpu:{index}" for batch in (1, 2, 5) for index in (0, 1)]


@pytest.mark.full
@_SEVERAL
def test_the_steps_one_by_one() -> None:
    program = """
module = nn.Linear(3, 2).to("tpu")
x = torch.arange(15.0, device="tpu").view(5, 3)
print(data_parallel(module, x, output_device=1).device)
parts = scatter((x, {"count": 7}), [0, 1])
print([(values.device.index, len(values), more["count"]) for values, more in parts])
replicas = replicate(module, [0, 1])
results = parallel_apply(replicas, [values for values, _ in parts], devices=[0, 1])
print([result.device.index for result in results])
whole = gather(results, "cpu")
print(whole.device, torch.allclose(whole, module(x).cpu()))
detached = replicate(module, [0, 1], detach=True)
print([replica.weight.device.index for replica in detached], detached[1].weight.requires_grad)
print(data_parallel(nn.Tanh(), torch.ones(2, dtype=torch.complex64, device="tpu")).dtype)
"""
    assert _run(program) == [
        "tpu:1",
        "[(0, 3, 7), (1, 2, 7)]",
        "[0, 1]",
        "cpu True",
        "[0, 1] False",
        "torch.complex64",
    ]


@pytest.mark.full
def test_what_they_copy() -> None:
    program = """
x = torch.arange(6.0).view(3, 2)
def show(tensors):
    print([(tensor.device.index, tensor.tolist()) for tensor in tensors])
show(comm.broadcast(x[0], [0, 1]))
show(comm.broadcast(x[0], out=[torch.empty(2, device="tpu:1")]))
show(comm.scatter(x, [1, 0], chunk_sizes=[2, 1]))
show(comm.scatter(x, [0, 1], dim=-1, streams=[torch.Stream("tpu:0"), None]))
out = [torch.empty(size, 2, device=f"tpu:{size - 1}") for size in (1, 2)]
show(comm.scatter(x, out=out))
show([comm.gather(out), comm.gather(out, destination=1)])
print(torch.equal(comm.gather(out, destination="cpu"), x))
print(torch.equal(comm.gather(out, out=torch.empty(3, 2)), x))
"""
    assert _run(program) == [
        "[(0, [0.0, 1.0]), (1, [0.0, 1.0])]",
        "[(1, [0.0, 1.0])]",
        "[(1, [[0.0, 1.0], [2.0, 3.0]]), (0, [[4.0, 5.0]])]",
        "[(0, [[0.0], [2.0], [4.0]]), (1, [[1.0], [3.0], [5.0]])]",
        "[(0, [[0.0, 1.0]]), (1, [[2.0, 3.0], [4.0, 5.0]])]",
        "[(0, [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]), (1, [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])]",
        "True",
        "True",
    ]


def test_what_is_refused() -> None:
    x = torch.ones(3, 2, device="tpu")
    with pytest.raises(RuntimeError, match=r"must be on devices\[0\]: 1"):
        comm.broadcast_coalesced([x], [1, 0])
    with pytest.raises(RuntimeError, match=r"index 0 to have shape \[3, 2\], but it has \[2\]"):
        comm.broadcast(x, out=[torch.empty(2, device="tpu")])
    with pytest.raises(RuntimeError, match="output tensor at index 0 has device 'cpu'"):
        comm.scatter(x, out=[torch.empty(3, 2)])
    with pytest.raises(RuntimeError, match="non-negative device index, but got -1"):
        comm.scatter(x, [-1])
    with pytest.raises(RuntimeError, match=r"to have shape \[3, 2\], but got \[2, 2\]"):
        comm.gather([x], out=torch.empty(2, 2))


def test_other_devices_keep_the_functions_that_torch_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def theirs(*args: Any) -> str:
        return "theirs"

    for name in ("broadcast", "broadcast_out", "broadcast_coalesced", "scatter", "scatter_out"):
        monkeypatch.setattr(torch._C, f"_{name}", theirs)
    for name in ("gather", "gather_out"):
        monkeypatch.setattr(torch._C, f"_{name}", theirs)
    data_parallel.install()
    meta, here = torch.ones(2, device="meta"), torch.ones(2, device="tpu")
    assert comm.broadcast(meta, [0]) == "theirs"
    assert comm.gather([meta], out=meta) == "theirs"
    assert comm.broadcast(here, [0])[0] is here
    assert comm.broadcast(torch.ones(2), [0])[0].device.type == "tpu"
    assert comm.broadcast_coalesced([], [0]) == [[]]
    monkeypatch.setattr(data_parallel, "_get_available_device_type", lambda: "cuda")
    assert comm.broadcast(torch.ones(2), [0]) == "theirs"
    assert comm.broadcast(torch.ones(2), out=[here]) == [here]


@pytest.mark.full
@_SEVERAL
def test_inputs_of_the_host() -> None:
    program = """
network = nn.Linear(3, 2)
on_device = copy.deepcopy(network).to("tpu")
x = torch.randn(5, 3, requires_grad=True)
y = x.detach().requires_grad_()
network(x).square().sum().backward()
nn.DataParallel(on_device)(y).square().sum().backward()
torch.testing.assert_close(y.grad, x.grad)
torch.testing.assert_close(on_device.weight.grad.cpu(), network.weight.grad)
print(nn.DataParallel(nn.Linear(2, 1), device_ids=[0])(torch.ones(4, 2)).device)
"""
    assert _run(program) == ["tpu:0"]
