# SPDX-License-Identifier: Apache-2.0
"""Check a wheel's files against its RECORD, to detect corruption and tampering."""

from __future__ import annotations

import base64
import binascii
import csv
import io
import zipfile
from pathlib import Path

from tools.importer.errors import UserError
from tools.importer.verify.difference import Difference, Kind
from tools.importer.verify.hashing import WheelContents

_WHERE = "wheel"
# RECORD cannot contain its own hash or those of its signatures.
_UNHASHED = ("RECORD", "RECORD.jws", "RECORD.p7s")


def check_record(wheel: Path, contents: WheelContents) -> list[Difference]:
    """Return the differences between a wheel's files and its RECORD, sorted by path."""
    differences = [
        Difference(_WHERE, Kind.DAMAGED, path, why) for path, why in contents.damaged.items()
    ]
    rows = _rows(wheel, contents)
    for path, (digest, size) in rows.items():
        if path in contents.damaged:
            continue
        member = contents.members.get(path)
        if member is None:
            differences.append(Difference(_WHERE, Kind.MISSING, path, "RECORD lists it"))
        elif digest and (member.entry.digest, str(member.size)) != (digest, size):
            note = f"{member.entry.digest[:16]}, RECORD wants {digest[:16]}"
            differences.append(Difference(_WHERE, Kind.CHANGED, path, note))
        elif not digest and not _is_unhashed(path):
            differences.append(Difference(_WHERE, Kind.CHANGED, path, "RECORD has no hash of it"))
    for path in contents.members.keys() - rows.keys():
        if not _is_unhashed(path):
            differences.append(Difference(_WHERE, Kind.EXTRA, path, "RECORD does not list it"))
    return sorted(differences, key=lambda each: each.path)


def _rows(wheel: Path, contents: WheelContents) -> dict[str, tuple[str, str]]:
    records = [path for path in contents.members if path.endswith(".dist-info/RECORD")]
    if len(records) != 1:
        raise UserError(f"{wheel}: holds {len(records)} RECORD files. Get the published wheel")
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(records[0]).decode("utf-8", "replace")
    rows: dict[str, tuple[str, str]] = {}
    for row in csv.reader(io.StringIO(text)):
        if row:
            path, digest, size = (*row, "", "")[:3]
            rows[path] = (_hex(digest), size)
    return rows


def _hex(digest: str) -> str:
    """Convert a RECORD hash (URL-safe base64 without padding) to hex.

    Return any other text unchanged, so that it differs from every hash.
    """
    kind, _, text = digest.partition("=")
    if not digest:
        return ""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return digest
    return raw.hex() if kind == "sha256" else digest


def _is_unhashed(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return folder.endswith(".dist-info") and name in _UNHASHED
