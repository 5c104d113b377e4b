# SPDX-License-Identifier: Apache-2.0
"""Copy torch's traces (TORCH_TRACE) from local files to a remote directory.

torch appends to a trace as long as the process runs, but remote stores do not support appending. So
traces are written to temporary local files, which are copied to the store as they grow and at exit.
If the process is killed, the copy is at most `COPY_SECONDS` old.
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
    """Return a local directory whose files are copied to the gfile path `directory`.

    Raises an OSError naming `directory` if it cannot be created.
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
        """Copy the files that have changed since the last copy."""
        with self._lock:
            for entry in os.scandir(self.local):
                status = entry.stat()
                version = (status.st_size, status.st_mtime_ns)
                if self._copied.get(entry.name) != version:
                    target = f"{self._directory.rstrip('/')}/{entry.name}"
                    gfile.Copy(entry.path, target, overwrite=True)
                    self._copied[entry.name] = version

    def _copy_growing(self) -> None:
        while os.getpid() == self._pid:
            time.sleep(COPY_SECONDS)
            # Ignore failures here: the next `copy` retries, and the last one, in `_end`, raises.
            with contextlib.suppress(OSError):
                self.copy()

    def _end(self) -> None:
        if os.getpid() == self._pid:
            self.copy()
            shutil.rmtree(self.local, ignore_errors=True)


_lock = threading.Lock()
_stages: dict[str, _Stage] = {}
