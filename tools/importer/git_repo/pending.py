# SPDX-License-Identifier: Apache-2.0
"""A record, written before a ref update, from which the next run can complete the update."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path

from tools.importer.git_repo.repository import Repository

_FILE = "importer-pending.json"


@dataclass(frozen=True)
class Pending:
    """An unfinished update of `ref` from `old` to `new`, and of the working tree under `at`.

    `old` is None if the ref is new.
    """

    ref: str
    old: str | None
    new: str
    at: str


def write_pending(repository: Repository, pending: Pending) -> None:
    """Write the record durably. The caller must not update the ref before this returns."""
    aside = repository.git_dir / f"{_FILE}.new"
    with aside.open("w", encoding="utf-8") as out:
        json.dump(dataclasses.asdict(pending), out)
        out.flush()
        os.fsync(out.fileno())
    os.replace(aside, _path(repository))
    _sync(repository.git_dir)


def read_pending(repository: Repository) -> Pending | None:
    """Return the record of an interrupted run, or None if there is none."""
    try:
        return Pending(**json.loads(_path(repository).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def clear_pending(repository: Repository) -> None:
    """Delete the record of a completed run."""
    _path(repository).unlink(missing_ok=True)


def _path(repository: Repository) -> Path:
    return repository.git_dir / _FILE


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
