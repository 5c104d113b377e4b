# SPDX-License-Identifier: Apache-2.0
"""What base.json says of upstream's files, against upstream's files."""

from __future__ import annotations

from tools.importer.engine import Base
from tools.importer.snapshot import Snapshot
from tools.importer.tree import Entry
from tools.importer.verify.difference import Difference, compare


def check_base(base: Base, snapshot: Snapshot) -> list[Difference]:
    """Return the recorded files that upstream has otherwise. Digests are git's blob ids."""
    want = {path: Entry(file.mode, file.oid) for path, file in base.files.items()}
    found: dict[str, Entry] = {}
    for path in want:
        blob = snapshot.read(path)
        if blob is not None:
            found[path] = Entry(blob.mode, blob.oid)
    return compare("base", want, found)
