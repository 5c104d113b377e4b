# SPDX-License-Identifier: Apache-2.0
"""Tests that tensors on the device can be sent to other processes and back."""

from __future__ import annotations

import os
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
import torch


def _sent(value: Any) -> Any:
    return ForkingPickler.loads(ForkingPickler.dumps(value))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_what_arrives_is_a_copy(dtype: torch.dtype) -> None:
    x = torch.arange(6).reshape(2, 3).to("tpu", dtype)
    for tensor in (x, x.t(), x[:, 1], x[:0], torch.ones((), device="tpu").to(dtype)):
        received = _sent(tensor)
        assert (received.device, received.dtype, received.shape) == (x.device, dtype, tensor.shape)
        assert torch.equal(received.cpu(), tensor.cpu())
    received = _sent(x)
    received.zero_()
    assert x.any()


def test_parameters_and_leaves_keep_what_they_are() -> None:
    parameter = _sent(torch.nn.Parameter(torch.ones(3, device="tpu"), requires_grad=False))
    assert isinstance(parameter, torch.nn.Parameter)
    assert not parameter.requires_grad
    leaf = _sent(torch.ones(3, device="tpu", requires_grad=True))
    assert leaf.is_leaf
    assert leaf.requires_grad
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf"):
        _sent(leaf * 2)
    assert _sent({"host": torch.ones(2), "device": leaf})["host"].device.type == "cpu"


_PROGRAM = """
import torch
import torch.multiprocessing
from torch.utils.data import DataLoader
from torch_google.tpu import autoload

autoload()


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.full((3,), float(index), device="tpu")


def double(requests, results):
    x = requests.get()
    results.put(x * 2)
    requests.get()  # stay alive until the parent has received the result


if __name__ == "__main__":
    context = torch.multiprocessing.get_context("spawn")
    requests, results = context.Queue(), context.Queue()
    worker = context.Process(target=double, args=(requests, results))
    worker.start()
    requests.put(torch.arange(3.0, device="tpu"))
    doubled = results.get(timeout=300)
    requests.put(None)
    worker.join()
    print(doubled.device, doubled.tolist())
    loader = DataLoader(Rows(), batch_size=2, num_workers=1, multiprocessing_context="spawn")
    print([(batch.device.type, batch.sum(1).tolist()) for batch in loader])
    try:
        list(DataLoader(Rows(), num_workers=1, multiprocessing_context="fork"))
    except RuntimeError as error:
        print("forked after the device had started" in str(error), "'spawn'" in str(error))
"""


@pytest.mark.full
def test_queues_and_loaders_take_them(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(program)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.stdout.splitlines() == [
        "tpu:0 [0.0, 2.0, 4.0]",
        "[('tpu', [0.0, 3.0]), ('tpu', [6.0, 9.0])]",
        "True True",
    ], done.stderr
