# SPDX-License-Identifier: Apache-2.0
"""Data loaders work with pinned memory and with worker processes."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

from torch_google.tpu.release import V2_6


def dataset(device: str = "cpu") -> TensorDataset:
    return TensorDataset(torch.arange(24.0).reshape(8, 3).to(device), torch.arange(8).to(device))


def test_batches_through_pinned_memory() -> None:
    sums = []
    # v2.6 requires the device name, whereas later releases warn about this argument.
    where = {"pin_memory_device": "tpu"} if V2_6 else {}
    for inputs, labels in DataLoader(dataset(), batch_size=4, pin_memory=True, **where):
        assert inputs.is_pinned()
        moved = inputs.to("tpu", non_blocking=True), labels.to("tpu", non_blocking=True)
        inputs.zero_()  # the transfer has already copied the values, even with non_blocking
        sums.append([tensor.sum().item() for tensor in moved])
    assert sums == [[66.0, 6], [210.0, 22]]


def test_what_is_pinned() -> None:
    plain = torch.ones(3)
    pinned = plain.pin_memory()
    assert (plain.is_pinned(), pinned.is_pinned()) == (False, True)
    assert pinned[1:].is_pinned()
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert pinned.to("tpu").cpu().tolist() == [1.0] * 3


def test_batches_of_worker_processes() -> None:
    loader = DataLoader(
        dataset(), batch_size=4, pin_memory=True, num_workers=1, multiprocessing_context="spawn"
    )
    assert [inputs.tpu().sum().item() for inputs, _ in loader] == [66.0, 210.0]


def test_data_that_lies_on_the_device() -> None:
    data = dataset("tpu")
    batches = list(DataLoader(data, batch_size=4, sampler=RandomSampler(data)))
    assert {inputs.device.type for inputs, _ in batches} == {"tpu"}
    assert sorted(torch.cat([labels for _, labels in batches]).tolist()) == list(range(8))
