# SPDX-License-Identifier: Apache-2.0
"""Compile Python sources to marshalled code, deterministically and on all cores.

marshal's output depends on reference counts, and thus on what else the process has done. Therefore,
the files are divided into fixed batches, and a fresh process compiles each batch. The output also
depends on the hash seed, which the build rule fixes.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import marshal
import multiprocessing
import os
import struct
import warnings
import zlib
from collections.abc import Iterable, Iterator

import _par

PYC_HEADER = 16
_RUN = 64  # the number of files that one process compiles
_UNCHECKED_HASH = 0b01
# Compression levels. Level 12 for code takes four times as long and saves 2%; level 9 for sources
# takes three times as long and saves 1%.
_CODE_LEVEL = 6
_SOURCE_LEVEL = 6


@dataclasses.dataclass(frozen=True, slots=True)
class Compiled:
    """A source file and its compiled code, as stored in an archive."""

    path: str
    pyc: bytes | None  # compiled code; None if this Python cannot compile the source
    packed: bytes | None  # the pyc as a zstd frame, if it is stored compressed
    deflated: bytes
    crc: int
    size: int
    problem: str


Source = tuple[str, str, bool]


def compile_all(files: list[Source]) -> Iterator[Compiled]:
    """Compile `files`, and yield the results in the same order.

    Each item is (path under the import root, path on disk, whether to compress the code).
    """
    if len(files) < _RUN // 4:
        yield from _compile_run(files)
        return
    for done in compile_runs(runs_of(files)):
        yield from done


def runs_of(files: list[Source]) -> list[list[Source]]:
    """Divide `files` into batches, each of which a single process compiles."""
    return [files[i : i + _RUN] for i in range(0, len(files), _RUN)]


def compile_runs(runs: list[list[Source]]) -> Iterator[list[Compiled]]:
    """Compile each batch in a separate process that is forked from this one."""
    workers = max(1, min(len(runs), len(os.sched_getaffinity(0))))
    with multiprocessing.get_context("fork").Pool(workers, maxtasksperchild=1) as pool:
        yield from pool.imap(_compile_run, runs, chunksize=1)


def _compile_run(files: Iterable[Source]) -> list[Compiled]:
    return [_compile(*file) for file in files]


def _compile(path: str, disk: str, pack: bool) -> Compiled:
    with open(disk, "rb") as stream:
        source = stream.read()
    pyc, problem = None, ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # most warnings are about third-party code
            code = compile(source, path, "exec", dont_inherit=True, optimize=0)
        header = importlib.util.MAGIC_NUMBER + struct.pack("<L", _UNCHECKED_HASH)
        pyc = header + importlib.util.source_hash(source) + marshal.dumps(code)
    except (SyntaxError, ValueError) as error:
        problem = f"{disk}: {error}"
    packed = _par.compress(pyc, _CODE_LEVEL) if pack and pyc is not None else None
    return Compiled(path, pyc, packed, deflate(source), zlib.crc32(source), len(source), problem)


def deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(_SOURCE_LEVEL, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()
