# SPDX-License-Identifier: Apache-2.0
"""A deadline for the server's shutdown.

When it expires, the process logs which parts of the server are still running, and exits.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

_LOG = logging.getLogger(__name__)
_STATUS = 1  # the exit status after the deadline has expired
_WRITE_TIMEOUT = 1.0  # seconds for each attempt to log; the reader of stderr may also hang
_BACKSTOP = 5.0  # extra seconds until faulthandler terminates the process, if the thread cannot run


class Deadline:
    """A thread that terminates the process, unless `cancel` is called in time.

    `describe` returns text that lists the parts of the server that are still running. It is called
    in this thread, so it must not wait for a lock. The event loop could not enforce the deadline,
    because it may be the part that hangs.
    """

    def __init__(self, describe: Callable[[], str]) -> None:
        self._describe = describe
        # `put` must be reentrant, as only SimpleQueue's is, because a signal handler that calls
        # `start` may interrupt another call. Each call to `start` puts the current time and the
        # timeout in seconds. `cancel` puts None, which stops the thread.
        self._starts: queue.SimpleQueue[tuple[float, float] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="deadline", daemon=True)
        self._thread.start()

    def start(self, seconds: float) -> None:
        """Set the deadline to `seconds` from now, unless an earlier deadline is already set.

        This method may be called from a signal handler.
        """
        self._starts.put((time.monotonic(), seconds))

    def cancel(self) -> None:
        """Stop the thread. Later calls to `start` have no effect."""
        self._starts.put(None)
        self._thread.join()

    def _run(self) -> None:
        first = self._starts.get()
        if first is None:
            return
        begin, seconds = first
        has_backstop = _start_backstop(begin + seconds)
        while (rest := begin + seconds - time.monotonic()) > 0:
            try:
                later = self._starts.get(timeout=rest)
            except queue.Empty:
                continue
            if later is None:
                if has_backstop:
                    faulthandler.cancel_dump_traceback_later()
                return
            if (shorter := sum(later) - begin) < seconds:
                seconds = shorter
                has_backstop = _start_backstop(begin + seconds)
        self._expire(seconds)

    def _expire(self, seconds: float) -> None:
        try:
            parts = self._describe()
        except Exception as error:  # noqa: BLE001 - the process must end in any case
            parts = f"unknown parts: {error!r}"
        line = (
            f"the shutdown took more than {seconds:.3g} s: {parts}; the main thread is in "
            f"{_main_thread()}. The process ends with status {_STATUS}"
        )
        # The logging module uses locks, and the main thread may hold one of them.
        for write in (lambda: _LOG.critical(line), lambda: os.write(2, f"{line}\n".encode())):
            writer = threading.Thread(target=write, daemon=True)
            writer.start()
            writer.join(_WRITE_TIMEOUT)
            if not writer.is_alive():
                break
        os._exit(_STATUS)


def _start_backstop(end: float) -> bool:
    """Have faulthandler terminate the process, even if C code holds the GIL.

    Return whether faulthandler can do this.
    """
    try:
        seconds = max(0.0, end - time.monotonic()) + _BACKSTOP
        faulthandler.dump_traceback_later(seconds, exit=True)
    except (AttributeError, OSError, RuntimeError, ValueError):  # stderr is not a file
        return False
    return True


def _main_thread() -> str:
    frame: FrameType | None = sys._current_frames().get(threading.main_thread().ident or 0)
    if frame is None:
        return "no Python code"
    code = frame.f_code
    return f"{os.path.basename(code.co_filename)}:{frame.f_lineno} {code.co_name}"
