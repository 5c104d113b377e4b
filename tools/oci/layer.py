# SPDX-License-Identifier: Apache-2.0
"""Write a layer: a tar file, compressed with zstd, whose bytes depend only on its entries.

All timestamps are 0, and the names are sorted. The file is compressed in frames of a fixed size, so
memory use does not grow with the layer. Every zstd decoder reads the frames as one stream.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

import _par

from tools.oci.descriptor import LAYER_ZSTD, Descriptor

_FRAME = 16 << 20  # uncompressed bytes per zstd frame
# An image consists mostly of libraries that are already compressed, so a higher level saves little.
_LEVEL = 3
_SMALL, _SMALL_LEVEL = 2 << 20, 19  # small layers are pushed often, and compress quickly
_BLOCK = tarfile.BLOCKSIZE


@dataclasses.dataclass(frozen=True)
class Entry:
    """A file, link or directory in a layer.

    path: its absolute path in the image.
    data: the contents of a file; None for other kinds.
    target: the target of a symbolic link.
    same_as: the target of a hard link, which is the path of a file in the same layer that sorts
    before `path`.
    """

    path: str
    mode: int = 0o644
    data: bytes | memoryview | None = None
    target: str = ""
    owner: int = 0
    same_as: str = ""

    @property
    def name(self) -> str:
        return self.path.strip("/")


@dataclasses.dataclass(frozen=True)
class Layer:
    """A finished layer. diff_id: the digest of the tar file before compression."""

    descriptor: Descriptor
    diff_id: str
    title: str


def diff_id(entries: Iterable[Entry]) -> str:
    """Return the digest of the layer's tar file. Raises ValueError as write_layer does."""
    plain = hashlib.sha256()
    _write_tar(entries, plain.update)
    return f"sha256:{plain.hexdigest()}"


def write_layer(title: str, entries: Iterable[Entry], blobs: Path) -> Layer:
    """Write a layer to the directory `blobs`, in a file named after its digest.

    Missing parent directories are added to the layer. Raises ValueError if two entries have the
    same path.
    """
    with tempfile.NamedTemporaryFile(dir=blobs, delete=False) as stream:
        temporary = Path(stream.name)
        try:
            sink = _Sink(stream)
            _write_tar(entries, sink.write)
            sink.finish()
        except BaseException:
            temporary.unlink()
            raise
    digest = f"sha256:{sink.packed.hexdigest()}"
    temporary.chmod(0o644)
    temporary.replace(blobs / sink.packed.hexdigest())
    descriptor = Descriptor(LAYER_ZSTD, digest, sink.size)
    return Layer(descriptor, f"sha256:{sink.plain.hexdigest()}", title)


def _in_order(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries and all their parent directories, parents first."""
    table: dict[str, Entry] = {}
    for entry in entries:
        if entry.name in table:
            raise ValueError(f"{entry.path}: two files of the image have this path; rename one")
        table[entry.name] = entry
    for name in list(table):
        for parent in PurePosixPath(name).parents[:-1]:
            table.setdefault(str(parent), Entry(f"/{parent}", 0o755))
    for name in sorted(table, key=lambda name: name.split("/")):
        yield table[name]


def _write_tar(entries: Iterable[Entry], write: Callable[[bytes | memoryview], object]) -> None:
    for entry in _in_order(entries):
        _add(entry, write)
    write(bytes(2 * _BLOCK))  # a tar file ends with two empty blocks


def _add(entry: Entry, write: Callable[[bytes | memoryview], object]) -> None:
    info = tarfile.TarInfo(entry.name)
    info.mode, info.uid, info.gid, info.mtime = entry.mode, entry.owner, entry.owner, 0
    data = entry.data
    if data is not None:
        info.size = len(data)
    elif entry.same_as:
        info.type, info.linkname = tarfile.LNKTYPE, entry.same_as.strip("/")
    elif entry.target:
        info.type, info.linkname = tarfile.SYMTYPE, entry.target
    else:
        info.type = tarfile.DIRTYPE
    write(info.tobuf(tarfile.PAX_FORMAT))
    if data is not None:
        write(data)
        write(bytes(-len(data) % _BLOCK))


class _Sink:
    """A writer that compresses its input, and hashes both the input and the compressed bytes."""

    def __init__(self, stream: tempfile._TemporaryFileWrapper[bytes]) -> None:
        self._stream = stream
        self._frame = bytearray()
        self.plain, self.packed = hashlib.sha256(), hashlib.sha256()
        self.size = 0

    def write(self, data: bytes | memoryview) -> None:
        self.plain.update(data)
        view = memoryview(data)
        while view:
            room = _FRAME - len(self._frame)
            self._frame += view[:room]
            view = view[room:]
            if len(self._frame) == _FRAME:
                self._flush()

    def finish(self) -> None:
        if self._frame:
            self._flush()
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def _flush(self) -> None:
        level = _SMALL_LEVEL if len(self._frame) <= _SMALL else _LEVEL
        packed = _par.compress(self._frame, level)
        self._frame.clear()
        self.packed.update(packed)
        self.size += len(packed)
        self._stream.write(packed)
