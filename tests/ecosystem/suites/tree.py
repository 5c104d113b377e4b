# SPDX-License-Identifier: Apache-2.0
"""Download a suite's source distribution, check its hash and unpack it."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from tests.ecosystem.suites.catalogue import Suite
from third_party.pypi import sdist

OVERLAY = Path(__file__).with_name("overlay")
"""Has a folder for each suite that needs files in addition to those of the source distribution."""


def prepare(suite: Suite, work: Path) -> Path:
    """Return the directory in `work` with the suite's sources, which later runs reuse.

    Raises an SdistError if pip cannot download the distribution, and a ValueError if its hash is
    not the pinned one.
    """
    directory = work / f"{suite.library}-{suite.version}-{suite.sha256[:12]}"
    if not directory.exists():
        with tempfile.TemporaryDirectory(dir=work) as scratch:
            file = sdist.fetch(suite.library, suite.version, Path(scratch)).file
            unpack(suite, file, directory)
    overlay = OVERLAY / suite.library
    if overlay.exists():
        shutil.copytree(overlay, directory, dirs_exist_ok=True)
    return directory


def unpack(suite: Suite, file: Path, directory: Path) -> None:
    """Unpack an archive, without its top-level folder, to a new directory.

    Raises a ValueError if the archive's hash is not the pinned one, or if it does not have
    exactly one top-level folder.
    """
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    if digest != suite.sha256:
        raise ValueError(
            f"{file.name}: expected sha256 {suite.sha256}, found {digest}. Check the row of"
            f" {suite.library} in suites.json"
        )
    with tempfile.TemporaryDirectory(dir=directory.parent) as scratch:
        with tarfile.open(file) as archive:
            # Before 3.11.4, tarfile has no filters, but the archive is safe: its hash was checked.
            safe: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            archive.extractall(scratch, **safe)
        folders = list(Path(scratch).iterdir())
        if len(folders) != 1:
            raise ValueError(f"{file.name}: expected one top folder, found {len(folders)}")
        folders[0].rename(directory)
