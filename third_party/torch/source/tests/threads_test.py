# SPDX-License-Identifier: Apache-2.0
"""The thread pools of torch and BLAS work after a fork, and after the thread count is changed."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

_COUNT = 1 << 22
_SECONDS = 300


def _add() -> None:
    """Add tensors that are large enough for torch to use all threads."""
    ones = torch.ones(_COUNT)
    assert ones.add_(1).sum().item() == 2 * _COUNT


def _tasks() -> list[str]:
    return os.listdir("/proc/self/task")


def _threads() -> int:
    return len(_tasks())


def _exit_status(function: Callable[[], None]) -> int | None:
    """Run `function` in a forked process. Return its exit status, or None if it timed out."""
    child = multiprocessing.get_context("fork").Process(target=function)
    child.start()
    child.join(_SECONDS)
    status = child.exitcode
    child.kill()
    return status


def _as_inherited() -> None:
    assert (torch.get_num_threads(), _threads()) == (4, 1)
    _add()
    assert _threads() == 4


def _as_a_loaders_worker() -> None:
    torch.set_num_threads(1)
    _add()
    assert (torch.get_num_threads(), _threads()) == (1, 1)


def test_a_forked_process_has_threads_of_its_own() -> None:
    torch.set_num_threads(4)
    _add()
    assert _threads() >= 4
    assert _exit_status(_as_inherited) == 0
    assert _exit_status(_as_a_loaders_worker) == 0
    _add()


def test_loaders_workers_compute() -> None:
    torch.set_num_threads(4)
    for _ in range(2):
        rows = torch.utils.data.DataLoader(_Rows(), num_workers=2, timeout=_SECONDS)
        assert [row.item() for row in rows] == [0.0, _COUNT, 2.0 * _COUNT]


def test_the_number_may_change() -> None:
    for number in (2, 5, 3, 1):
        torch.set_num_threads(number)
        before = _threads()
        _add()
        assert torch.get_num_threads() == number
    torch.set_num_threads(5)
    _add()
    assert _threads() == before  # The loop has already grown the pool to five threads.


def test_loops_run_in_a_team() -> None:
    """Loops start the team's threads, and loops of two threads at once finish."""
    torch.set_num_threads(2)
    _add()
    names = {Path(f"/proc/self/task/{task}/comm").read_text().strip() for task in _tasks()}
    assert "PTThreadTeam" in names
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(_add) for _ in range(20)]:
            done.result(_SECONDS)


def _products() -> None:
    square = torch.randn(700, 700)
    before = _threads()
    torch.set_num_threads(1)
    square @ square
    assert _threads() == before == 1
    torch.set_num_threads(3)
    square @ square
    assert _threads() >= 3


def test_products_take_as_many_threads_as_were_set() -> None:
    # Run in a forked process, because other tests may have started threads in this one.
    torch.set_num_threads(2)
    assert _exit_status(_products) == 0


class _Rows(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((_COUNT,), float(index)).sum()
