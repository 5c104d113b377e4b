# SPDX-License-Identifier: Apache-2.0
"""Exit a process fast, without finalizing the interpreter or running C++ destructors.

All externally visible effects still happen: non-daemon threads finish, atexit functions run,
standard output is flushed, and buffered data is written to open files.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING

import _par

from par_runtime import open_files

if TYPE_CHECKING:
    from _par_importer import Runtime


# Writable descriptors that were inherited from the caller, such as a build tool's pipes, to which
# the program rarely writes.
_inherited = open_files.writable()


def is_fast(runtime: Runtime) -> bool:
    """Return whether this process should exit fast, by calling `leave`."""
    return bool(runtime.settings.get("fast_exit")) and os.environ.get("PAR_FAST_EXIT", "1") != "0"


def leave(status: int) -> None:
    """Exit the process with `status`, or kill it with signal -status if `status` is negative.

    This function returns only if a standard stream cannot be flushed.
    """
    gc.freeze()  # collecting garbage at exit would waste time
    threading = sys.modules.get("threading")
    if threading is not None:
        threading._shutdown()  # wait for non-daemon threads, as the interpreter does at exit
    import atexit

    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            return
    if not _inherited >= open_files.writable():
        open_files.finalize()
    if status < 0:
        import signal

        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    _par.exit(status & 0xFF)
