# SPDX-License-Identifier: Apache-2.0
"""Write a finished report to a file atomically, and only if it changed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tools.importer.errors import EnvironmentProblem, UserError


def write_report(file: Path, text: str) -> bool:
    """Write `text` to `file` and return whether the file changed.

    Raises UserError if `file` is not in an existing directory, and EnvironmentProblem if writing
    fails.
    """
    data = text.encode()
    if file.is_dir() or not file.parent.is_dir():
        fault = "is a directory" if file.is_dir() else f"no directory '{file.parent}'"
        raise UserError(f"{file}: {fault}. Name a file in a directory that exists")
    try:
        if file.is_file() and file.read_bytes() == data:
            return False
        handle, aside = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            os.chmod(aside, 0o666 & ~_umask())
            os.replace(aside, file)
        except BaseException:
            os.unlink(aside)
            raise
    except OSError as error:
        raise EnvironmentProblem(
            f"{file}: not written: {error.strerror}. The file is unchanged; write elsewhere"
        ) from error
    return True


def _umask() -> int:
    """Return this process's umask. It can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
