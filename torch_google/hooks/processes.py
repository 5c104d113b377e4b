# SPDX-License-Identifier: Apache-2.0
"""A hook for torch/_seam/processes.py. It makes crashing DataLoader workers report tracebacks."""

import signal
import sys
from collections.abc import Callable

_REPORTS = "torch_google.multiprocessing.reports"


def install() -> None:
    """Install the hook."""
    from torch._seam import processes

    processes.worker_signals.install(_worker_signals)


# For these signals, faulthandler replaces torch's handlers, which write a shorter message that ends
# in a NUL. The main process still raises torch's error, with its advice about shared memory.
_FAULTS = (signal.SIGBUS, signal.SIGSEGV, signal.SIGFPE)


def _worker_signals(install: Callable[[], None]) -> None:
    """Install torch's signal handlers, but replace those for crashes with faulthandler's."""
    reports = sys.modules.get(_REPORTS)
    if reports is None:  # the program does not use torch_google.multiprocessing
        install()
        return
    import faulthandler

    # Disable faulthandler before `install` replaces its handlers. Otherwise, it would still count
    # as enabled, and enabling it again would be a no-op.
    faulthandler.disable()
    install()
    for number in _FAULTS:
        signal.signal(number, signal.SIG_DFL)
    reports.watch_faults()
