# SPDX-License-Identifier: Apache-2.0
"""Move the build's pin to the imported wheel, with the hash of its patched tree."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tools.importer.errors import UserError
from tools.importer.project import Project
from tools.importer.report import Report
from tools.importer.session.reimport import Carried, write_directory
from tools.importer.snapshot import Snapshot


def moved_pin(
    project: Project, new: Snapshot, carried: Carried, report: Report
) -> dict[str, object] | None:
    """Return the new content of pin.json, or None if the build cannot use that origin.

    Raises UserError if the patched tree cannot be built.
    """
    # Imported lazily, because `status` needs neither the origins nor the unpacker.
    from third_party.torch.unpack import tree_hash_of
    from tools.importer.origins import OriginSnapshot
    from tools.importer.origins.cache import user_cache

    if not (isinstance(new, OriginSnapshot) and new.natives):
        return None
    for key in ("version", "filename", "sha256"):
        if not isinstance(new.pin.get(key), str):
            raise UserError(f"the wheel of {new.label}: its origin did not state its {key}")
    wheel = user_cache().file(str(new.pin["sha256"]))
    assert wheel is not None, "an opened wheel is in the cache"
    old = json.loads(project.pin.read_text(encoding="utf-8"))
    seam = project.pin.parent / "seam"
    with (
        tempfile.TemporaryDirectory(prefix="series-") as scratch,
        report.progress(f"Hashing the patched tree of {new.label}"),
    ):
        write_directory(Path(scratch), carried.files)
        tree = tree_hash_of(wheel, Path(scratch), seam)
    return {
        "tag": new.label,
        "commit": new.commit,
        "version": new.pin["version"],
        "wheel": {
            **old["wheel"],  # keep its index, which has builds without CUDA
            "filename": new.pin["filename"],
            "sha256": new.pin["sha256"],
        },
        "tree_hash": tree,
    }


def pin_bytes(pin: dict[str, object]) -> bytes:
    """Return the bytes of pin.json. The same pin gives the same bytes."""
    return (json.dumps(pin, indent=2) + "\n").encode()
