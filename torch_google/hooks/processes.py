# SPDX-License-Identifier: Apache-2.0
"""Hook for torch/_seam/processes.py: it makes a crashing DataLoader worker report a traceback."""

import signal
import sys
from collections.abc import Callable

_REPORTS = "torch_google.multiprocessing.reports"


def install() -> None:
    """Install the hook."""
    from torch._seam import processes

    processes.worker_signals.install(_worker_signals)


# For these signals, torch's handlers write a message that ends in a NUL and says less than
# faulthandler's. The process that waits for the worker still raises torch's error, with its advice
# about shared memory.
_FAULTS = (signal.SIGBUS, signal.SIGSEGV, signal.SIGFPE)


def _worker_signals(install: Callable[[], None]) -> None:
    """Install torch's SIGTERM handler, but faulthandler in place of torch's crash handlers."""
    reports = sys.modules.get(_REPORTS)
    if reports is None:  # the program does not use torch_google.multiprocessing
        install()
        return
    import faulthandler

    # faulthandler.enable is a no-op if faulthandler believes that it is enabled, but torch has
    # replaced its handlers. So disable it first.
    faulthandler.disable()
    install()
    for number in _FAULTS:
        signal.signal(number, signal.SIG_DFL)
    reports.watch_faults()
