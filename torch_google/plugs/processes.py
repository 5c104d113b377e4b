# SPDX-License-Identifier: Apache-2.0
"""Hook for torch/_seam/processes.py: a crashing DataLoader worker reports its traceback."""

import signal
import sys
from collections.abc import Callable

_REPORTS = "torch_google.multiprocessing.reports"


def plug() -> None:
    """Install the hook."""
    from torch._seam import processes

    processes.worker_signals.plug(_worker_signals)


# For these signals, torch's handlers write a message that ends in a NUL and is less informative
# than faulthandler's. The waiting process raises an error with torch's advice about shared memory.
_FAULTS = (signal.SIGBUS, signal.SIGSEGV, signal.SIGFPE)


def _worker_signals(install: Callable[[], None]) -> None:
    """Install torch's SIGTERM handler, and faulthandler in place of its other handlers."""
    reports = sys.modules.get(_REPORTS)
    if reports is None:  # the program does not use torch_google.multiprocessing
        install()
        return
    import faulthandler

    # Otherwise faulthandler.enable would be a no-op, although torch has replaced its handlers.
    faulthandler.disable()
    install()
    for number in _FAULTS:
        signal.signal(number, signal.SIG_DFL)
    reports.watch_faults()
