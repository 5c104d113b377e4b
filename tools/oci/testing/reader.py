# SPDX-License-Identifier: Apache-2.0
"""Read a layout as the OCI specifications define it, and check all its digests.

This module shares no code with the writer of layouts.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import _par

_ZSTD = b"\x28\xb5\x2f\xfd"


@dataclasses.dataclass(frozen=True)
class File:
    """An entry of an image's layer. kind: "file", "directory", "link" or "hard link"."""

    kind: str
    mode: int
    owner: tuple[int, int]
    time: float
    data: bytes
    target: str


@dataclasses.dataclass(frozen=True)
class Image:
    digest: str
    manifest: dict[str, Any]
    config: dict[str, Any]
    layers: list[dict[str, File]]

    def files(self) -> dict[str, File]:
        """Return all layers' files, keyed by path. Files in later layers hide earlier ones."""
        result: dict[str, File] = {}
        for layer in self.layers:
            result |= layer
        return result


def read_image(layout: Path) -> Image:
    """Read a layout that has one image. Raises AssertionError if a digest or size is wrong."""
    assert json.loads((layout / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads((layout / "index.json").read_text())
    (row,) = index["manifests"]
    manifest = json.loads(read_blob(layout, row))
    config = json.loads(read_blob(layout, manifest["config"]))
    layers = []
    tars = [decompress(read_blob(layout, layer)) for layer in manifest["layers"]]
    diff_ids = [f"sha256:{hashlib.sha256(tar).hexdigest()}" for tar in tars]
    assert diff_ids == config["rootfs"]["diff_ids"]
    for tar in tars:
        layers.append(_files(tar))
    return Image(row["digest"], manifest, config, layers)


def read_blob(layout: Path, descriptor: dict[str, Any]) -> bytes:
    algorithm, _, digest = descriptor["digest"].partition(":")
    data = (layout / "blobs" / algorithm / digest).read_bytes()
    assert hashlib.new(algorithm, data).hexdigest() == digest
    assert len(data) == descriptor["size"]
    return data


def decompress(data: bytes) -> bytes:
    """Decompress a gzip file, or zstd frames (RFC 8878) that state their content size.

    Return other data unchanged, because a layer may be uncompressed.
    """
    if data.startswith(b"\x1f\x8b"):
        return gzip.decompress(data)
    if not data.startswith(_ZSTD):
        return data
    result = b""
    while data:
        end, size = _frame(data)
        result += _par.decompress(data[:end], size)
        data = data[end:]
    return result


def _frame(data: bytes) -> tuple[int, int]:
    """Return the length of the first zstd frame and the size of its contents."""
    assert data.startswith(_ZSTD)
    flags = data[4]
    single, checksum = flags >> 5 & 1, flags >> 2 & 1
    position = 5 + (not single) + (0, 1, 2, 4)[flags & 3]
    length = (1 if single else 0, 2, 4, 8)[flags >> 6]
    assert length, "the frame has no content size"
    size = int.from_bytes(data[position : position + length], "little")
    size += 256 * (length == 2)
    position += length
    last = False
    while not last:
        header = int.from_bytes(data[position : position + 3], "little")
        last, kind = bool(header & 1), header >> 1 & 3
        position += 3 + (1 if kind == 1 else header >> 3)
    return position + 4 * checksum, size


_KINDS = {
    tarfile.REGTYPE: "file",
    tarfile.DIRTYPE: "directory",
    tarfile.SYMTYPE: "link",
    tarfile.LNKTYPE: "hard link",
}


def _files(tar: bytes) -> dict[str, File]:
    result = {}
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        for member in archive:
            kind = _KINDS[member.type]
            stream = archive.extractfile(member) if member.isreg() else None
            result[f"/{member.name}"] = File(
                kind,
                member.mode,
                (member.uid, member.gid),
                member.mtime,
                stream.read() if stream else b"",
                member.linkname,
            )
    return result
