# SPDX-License-Identifier: Apache-2.0
"""A recorded base that is not upstream's is seen, file by file."""

from __future__ import annotations

from tools.importer.engine import Base, BaseFile
from tools.importer.snapshot import Blob, DictSnapshot
from tools.importer.verify.recorded_base import check_base


def test_each_file_is_compared() -> None:
    blobs = {name: Blob(name.encode()) for name in ("same", "changed", "mode", "gone")}
    files = {name: BaseFile(blob.mode, blob.oid, ()) for name, blob in blobs.items()}
    base = Base("v1", None, {}, files, frozenset())
    assert check_base(base, DictSnapshot("v1", {**blobs, "other": Blob(b"")})) == []
    upstream = {
        "same": blobs["same"],
        "changed": Blob(b"otherwise"),
        "mode": Blob(b"mode", "100755"),
    }
    found = [
        (each.kind.value, each.path) for each in check_base(base, DictSnapshot("v1", upstream))
    ]
    assert found == [("changed", "changed"), ("missing", "gone"), ("mode", "mode")]
