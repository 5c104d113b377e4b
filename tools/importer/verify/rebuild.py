# SPDX-License-Identifier: Apache-2.0
"""Rebuild the pinned tree from the wheel, our patches and seam/ (hooks), and check it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from third_party.torch.unpack import Pin, patched_tree
from tools.importer.apply import ApplyError
from tools.importer.report import Report
from tools.importer.series import SeriesError
from tools.importer.tree import Entry, file_digest
from tools.importer.verify.difference import Difference, Kind
from tools.importer.verify.hashing import hash_wheel
from tools.importer.verify.wheel_record import check_record


@dataclass(frozen=True)
class Rebuilt:
    """The result of `rebuild`. `entries` is empty if the tree could not be rebuilt."""

    tree_hash: str | None
    series_digest: str | None
    entries: Mapping[str, Entry]
    differences: tuple[Difference, ...]
    tag: str = ""


def rebuild(wheel: Path, pin: Pin, patches: Path, seam: Path, report: Report) -> Rebuilt:
    """Check all files in the wheel, rebuild the tree in memory, and compare it with the pin.

    Report each defect as a Difference. Raises UserError if `wheel` is not a zip file.
    """
    differences: list[Difference] = []
    with report.progress("Checking the wheel"):
        digest = file_digest(wheel)
    if digest != pin.wheel_sha256:
        note = f"sha256 {digest}, {pin.file} wants {pin.wheel_sha256}"
        differences.append(Difference("pin", Kind.CHANGED, str(wheel), note))
    contents = hash_wheel(wheel, report)
    differences += check_record(wheel, contents)
    if contents.damaged:
        return Rebuilt(None, None, {}, tuple(differences), pin.tag)
    try:
        with report.progress("Patching"):
            build = patched_tree(wheel, patches, seam, members=contents.members)
    except (ApplyError, SeriesError) as error:
        differences.append(Difference("series", Kind.DAMAGED, patches.name, str(error)))
        return Rebuilt(None, None, {}, tuple(differences), pin.tag)
    for name, stated, pinned in (
        ("version", build.version, pin.version),
        ("commit", build.commit, pin.commit),
        ("tree_hash", build.tree_hash, pin.tree_hash),
    ):
        if stated != pinned:
            note = f"{name} is {pinned}, the rebuilt tree has {stated}"
            differences.append(Difference("pin", Kind.CHANGED, pin.file, note))
    entries = {path: member.entry for path, member in build.members.items()}
    return Rebuilt(build.tree_hash, build.series_digest, entries, tuple(differences), pin.tag)
