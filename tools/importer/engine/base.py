# SPDX-License-Identifier: Apache-2.0
"""The recorded base of a patch series: hashes of the upstream tree that its patches apply to.

`base.json` in the series directory contains the upstream commit and the git blob id of every file
that the series touches. `base.lines` contains a 6-byte hash (a `Mark`) of each line of these files.
A merge only tests the old lines for equality, and outputs only lines from the patch or from the new
tree. So the hashes suffice: no old release is downloaded, and no upstream text is committed.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.importer.apply import split_lines
from tools.importer.engine.marks import MARK_BYTES, Mark, marks_of, path_mark
from tools.importer.engine.strict import apply_to_snapshot
from tools.importer.errors import UserError
from tools.importer.series import Series
from tools.importer.snapshot import Snapshot

JSON_FILE = "base.json"
LINES_FILE = "base.lines"

_MAGIC = b"base.lines 1\n"
_PATH_BYTES = 4
_REMAKE = (
    "Restore it from version control, or record it again with `tools/import.py refresh --base`"
)


@dataclass(frozen=True)
class BaseFile:
    """One upstream file: its git mode, its blob id, and the hash of each line, in order."""

    mode: str
    oid: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Base:
    """The part of upstream's tree that the patch series needs.

    `files` contains the upstream files that the patches touch. `absent` contains the touched paths
    that the tree's origin (the kind of source it comes from) never contains: a wheel, for example,
    has no C++ sources. `known` contains the hash of every path in the tree.
    """

    label: str
    commit: str | None
    pin: Mapping[str, object]
    files: Mapping[str, BaseFile]
    known: frozenset[bytes]
    absent: frozenset[str] = frozenset()


def record_base(series: Series, snapshot: Snapshot) -> Base:
    """Record `snapshot` as the base of `series`. Raises UserError if a patch does not apply."""
    absent = {
        path
        for patch in series.patches
        for diff in patch.files
        for path in diff.paths
        if diff.old_path is not None and not snapshot.carries(path)
    }
    apply_to_snapshot(series, snapshot, absent=absent)
    files: dict[str, BaseFile] = {}
    for path in sorted(
        {path for patch in series.patches for diff in patch.files for path in diff.paths}
    ):
        blob = snapshot.read(path)
        if blob is not None and path not in absent:
            files[path] = BaseFile(blob.mode, blob.oid, marks_of(split_lines(blob.data)))
    return Base(
        snapshot.label,
        snapshot.commit,
        dict(snapshot.pin),
        files,
        frozenset(path_mark(path) for path in snapshot.paths()),
        frozenset(absent),
    )


def base_files(base: Base) -> dict[str, bytes]:
    """Return base.json and base.lines, keyed by file name. The output is deterministic."""
    rows = [
        {"path": path, "mode": file.mode, "blob": file.oid, "lines": len(file.marks)}
        for path, file in sorted(base.files.items())
    ]
    body = b"".join(b"".join(base.files[str(row["path"])].marks) for row in rows)
    body += b"".join(sorted(base.known))
    packed = _MAGIC + zlib.compress(body, 9)
    data = {
        "label": base.label,
        "commit": base.commit,
        "origin": dict(base.pin),
        "absent": sorted(base.absent),
        "paths": len(base.known),
        "marks": hashlib.sha256(body).hexdigest(),
        "files": rows,
    }
    return {
        JSON_FILE: (json.dumps(data, indent=1) + "\n").encode(),
        LINES_FILE: packed,
    }


def read_base(directory: Path) -> Base:
    """Read the base in a patch series directory. Raises UserError if it is missing or corrupt."""
    try:
        data = json.loads((directory / JSON_FILE).read_text(encoding="utf-8"))
        body = _unpack(directory / LINES_FILE)
        if hashlib.sha256(body).hexdigest() != data["marks"]:
            raise UserError(f"{directory / LINES_FILE}: does not belong to {JSON_FILE}. {_REMAKE}")
        files, offset = _files(data["files"], body)
        known = frozenset(
            body[pos : pos + _PATH_BYTES] for pos in range(offset, len(body), _PATH_BYTES)
        )
        return Base(
            data["label"], data["commit"], data["origin"], files, known, frozenset(data["absent"])
        )
    except FileNotFoundError as error:
        raise UserError(
            f"{error.filename}: no such file: the base of this series is not recorded. {_REMAKE}"
        ) from None
    except UserError:
        raise
    except (
        ValueError,
        KeyError,
        TypeError,
        zlib.error,
    ) as error:  # JSON and UTF-8 errors are ValueErrors
        raise UserError(f"{directory / JSON_FILE}: damaged ({error!r}). {_REMAKE}") from None


def _unpack(file: Path) -> bytes:
    data = file.read_bytes()
    if not data.startswith(_MAGIC):
        raise UserError(f"{file}: not a file of line marks. {_REMAKE}")
    return zlib.decompress(data[len(_MAGIC) :])


def _files(rows: Sequence[Mapping[str, object]], body: bytes) -> tuple[dict[str, BaseFile], int]:
    files: dict[str, BaseFile] = {}
    offset = 0
    for row in rows:
        count = int(str(row["lines"]))
        end = offset + count * MARK_BYTES
        marks = tuple(body[pos : pos + MARK_BYTES] for pos in range(offset, end, MARK_BYTES))
        files[str(row["path"])] = BaseFile(str(row["mode"]), str(row["blob"]), marks)
        offset = end
    return files, offset
