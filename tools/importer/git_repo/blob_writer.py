# SPDX-License-Identifier: Apache-2.0
"""Store many blobs in one pack: 15,000 files take 1 s, instead of 10 s as loose objects."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from tools.importer.git_repo.client import problem
from tools.importer.git_repo.repository import Repository

_COMMAND = (
    "fast-import",
    "--quiet",  # no statistics on standard error
    "--depth=0",  # no delta search: twice as fast; `git gc` finds deltas later
    "--date-format=now",  # blobs have no dates, but the default reads the time zone
)


class BlobWriter:
    """A context manager that stores the blobs passed to `write` as one pack when it exits.

    Writing the first blob starts git, so an unused writer costs nothing. If the context exits with
    an error, no pack is left behind.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._process: Any = None
        self.count = 0

    def write(self, data: bytes) -> None:
        """Add one blob. Its id is the one that `snapshot.blob_id` returns."""
        if self._process is None:
            self._process = self._repository.git.start(*_COMMAND)
        try:
            self._process.stdin.write(b"blob\ndata %d\n" % len(data))
            self._process.stdin.write(data)
            self._process.stdin.write(b"\n")
        except BrokenPipeError:
            self._finish()  # raises an error with git's output if git failed
            raise  # reached only if git exited with 0 before the last blob
        self.count += 1

    def __enter__(self) -> BlobWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is None:
            return
        if kind is not None:
            self._process.proc.kill()
            self._process.proc.communicate()
            return
        self._finish()

    def _finish(self) -> None:
        process, self._process = self._process, None
        _, stderr = process.communicate()
        status = process.returncode
        if status:
            text = stderr.decode("utf-8", "replace")
            raise problem(_COMMAND, self._repository.path, status, text)
