# SPDX-License-Identifier: Apache-2.0
"""Whose a directory is: what another user could have written is not obeyed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tools.importer.errors import UserError


def check_own(directory: Path, step: str, *, link: bool = False) -> None:
    """Refuse a directory that is not the caller's alone to fill; one that is not there is fine.

    `link` allows a link to such a directory. Raises UserError, which ends with `step`.
    """
    try:
        found = directory.stat() if link else directory.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode):
        what = "a link" if stat.S_ISLNK(found.st_mode) else "no directory"
        raise UserError(f"{directory}: is {what}. {step}")
    if found.st_uid != os.geteuid():
        raise UserError(
            f"{directory}: belongs to user {found.st_uid}, and this is user {os.geteuid()}. {step}"
        )
    if found.st_mode & stat.S_IWOTH:
        raise UserError(f"{directory}: every user may write there. {step}, or `chmod o-w` it")
