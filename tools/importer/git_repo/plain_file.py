# SPDX-License-Identifier: Apache-2.0
"""Write a file atomically, without using git, and only if its content changed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tools.importer.errors import EnvironmentProblem


def write_file(file: Path, data: bytes, *, executable: bool = False) -> bool:
    """Write `file` and return whether it changed. Raises EnvironmentProblem if that fails."""
    try:
        if file.is_file() and file.read_bytes() == data:
            return False
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=file.parent, prefix=".import-")
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            os.chmod(aside, 0o755 if executable else 0o644)
            os.replace(aside, file)
        except BaseException:
            os.unlink(aside)
            raise
    except OSError as error:
        raise EnvironmentProblem(f"{file}: cannot be written: {error.strerror}") from error
    return True
