# SPDX-License-Identifier: Apache-2.0
"""torch/_seam/processes.py: a DataLoader's worker that crashes says where, as other children do."""

import signal
import sys
from collections.abc import Callable

_REPORTS = "torch_google.multiprocessing.reports"


def plug() -> None:
    """Answer torch's questions about processes."""
    from torch._seam import processes

    processes.worker_signals.plug(_worker_signals)


# What torch's handlers of these say ends in a NUL, and is less than what faulthandler says; the process
# that waits for the worker has torch's advice about shared memory in its own error.
_FAULTS = (signal.SIGBUS, signal.SIGSEGV, signal.SIGFPE)


def _worker_signals(install: Callable[[], None]) -> None:
    """torch's handler of SIGTERM, and faulthandler for what its others are for."""
    reports = sys.modules.get(_REPORTS)
    if reports is None:  # a worker of a program that does without
        install()
        return
    import faulthandler

    # Enabled already, it would think that it still is, below torch's handlers.
    faulthandler.disable()
    install()
    for number in _FAULTS:
        signal.signal(number, signal.SIG_DFL)
    reports.watch_faults()
