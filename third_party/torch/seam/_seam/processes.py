# SPDX-License-Identifier: Apache-2.0
"""Hooks for the processes that torch starts, called before they begin their work."""

from collections.abc import Callable

from torch._seam import Hook


def _worker_signals(install: Callable[[], None]) -> None:
    """In a worker of a DataLoader: install torch's handlers of fatal signals."""
    install()


worker_signals = Hook(_worker_signals)
