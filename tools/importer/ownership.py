# SPDX-License-Identifier: Apache-2.0
"""Reject a directory that other users can write to, because they may have tampered with it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tools.importer.errors import UserError


def check_own(directory: Path, step: str, *, link: bool = False) -> None:
    """Raise UserError if other users may have written to `directory`, which need not exist.

    With `link`, a symlink to a safe directory is also accepted. The error message ends with `step`,
    the next step.
    """
    try:
        status = directory.stat() if link else directory.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        kind = "a link" if stat.S_ISLNK(status.st_mode) else "no directory"
        raise UserError(f"{directory}: is {kind}. {step}")
    if status.st_uid != os.geteuid():
        raise UserError(
            f"{directory}: belongs to user {status.st_uid}, and this is user {os.geteuid()}. {step}"
        )
    if status.st_mode & stat.S_IWOTH:
        raise UserError(f"{directory}: every user may write there. {step}, or `chmod o-w` it")
