# SPDX-License-Identifier: Apache-2.0
"""torch/_seam/processes.py: a DataLoader's worker that crashes says where, as other children do."""

import sys
from collections.abc import Callable

_REPORTS = "torch_google.multiprocessing.reports"


def plug() -> None:
    """Answer torch's questions about processes."""
    from torch._seam import processes

    processes.worker_signals.plug(_worker_signals)


def _worker_signals(install: Callable[[], None]) -> None:
    """torch's handlers say that there was a fault, and faulthandler's, before them, where."""
    reports = sys.modules.get(_REPORTS)
    if reports is None:  # a worker of a program that does without
        install()
        return
    import faulthandler

    # Enabled already, below torch's handlers it would be asleep; again, it is above them and calls them.
    faulthandler.disable()
    install()
    reports.watch_faults()
