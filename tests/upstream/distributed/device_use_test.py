# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
import torch

import torch_google.tpu
from tests.upstream.distributed import device_use


def test_an_allocation_of_the_test_or_of_a_rank_is_a_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch_google.tpu.autoload()
    file = tmp_path / "used"
    monkeypatch.setenv(device_use.FILE, str(file))
    use: list[str] = []
    with device_use.watch(use):
        torch.ones(2)
    with device_use.watch(use):
        torch.empty(2, device="tpu")
    with device_use.reporting():
        torch.ones(2)
    assert not file.exists()
    with device_use.watch(use), device_use.reporting():
        torch.empty(2, device="tpu")
    assert file.exists()
    with device_use.watch(use):
        file.touch()  # A rank, which is another process, creates the file.
    assert use == [device_use.HOST, *3 * [device_use.TPU]]
