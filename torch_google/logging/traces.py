# SPDX-License-Identifier: Apache-2.0
"""torch's traces (TORCH_TRACE) in a directory of a remote store: written here, copied there.

torch appends to a trace for as long as the process lives, which no store does. So the files are local
and temporary, and their copies in the store are renewed while they grow, and at exit. What kills the
process leaves a copy that is `COPY_SECONDS` old at most.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import threading
import time

from torch_google import gfile

COPY_SECONDS = 10.0


def stage(directory: str) -> str:
    """Return the local directory whose files are copied to `directory`, a path of gfile.

    Raises OSError that names `directory` when it cannot be made.
    """
    with _lock:
        staged = _stages.get(directory)
        if staged is None:
            gfile.MakeDirs(directory)
            staged = _stages[directory] = _Stage(directory)
    return staged.local


class _Stage:
    def __init__(self, directory: str) -> None:
        self.local = tempfile.mkdtemp(prefix="torch_trace_")
        self._directory = directory
        self._copied: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()
        self._pid = os.getpid()
        threading.Thread(target=self._copy_growing, name="trace copies", daemon=True).start()
        atexit.register(self._end)

    def copy(self) -> None:
        """Copy what has changed since the last time."""
        with self._lock:
            for entry in os.scandir(self.local):
                status = entry.stat()
                seen = (status.st_size, status.st_mtime_ns)
                if self._copied.get(entry.name) != seen:
                    target = f"{self._directory.rstrip('/')}/{entry.name}"
                    gfile.Copy(entry.path, target, overwrite=True)
                    self._copied[entry.name] = seen

    def _copy_growing(self) -> None:
        while os.getpid() == self._pid:
            time.sleep(COPY_SECONDS)
            # What cannot be copied now is tried again; the end says so if it never can.
            with contextlib.suppress(OSError):
                self.copy()

    def _end(self) -> None:
        if os.getpid() == self._pid:
            self.copy()
            shutil.rmtree(self.local, ignore_errors=True)


_lock = threading.Lock()
_stages: dict[str, _Stage] = {}
