# SPDX-License-Identifier: Apache-2.0
"""Processes that torch starts call a hook in torch._seam before they begin their work."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from torch._seam import processes
from torch.utils.data import DataLoader, Dataset

_asked = False


@pytest.fixture(autouse=True)
def _upstream_again() -> Iterator[None]:
    yield
    processes.worker_signals.restore()


def _note(install: Callable[[], None]) -> None:
    global _asked
    _asked = True
    install()


class _WasAsked(Dataset[bool]):
    """A dataset whose items are True if the worker process has called the `worker_signals` hook."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> bool:
        return _asked


def test_a_workers_signals_are_the_seams() -> None:
    processes.worker_signals.install(_note)
    loader = DataLoader(_WasAsked(), num_workers=2, multiprocessing_context="fork")
    assert [bool(answer) for answer in loader] == [True, True]
    assert not _asked  # The parent process does not call the hook.


def test_until_replaced_it_is_upstreams() -> None:
    called = []
    processes.worker_signals(lambda: called.append(True))
    assert called == [True]
