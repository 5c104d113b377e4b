# SPDX-License-Identifier: Apache-2.0
"""Compiles Python sources to marshalled code, on all cores, with the same bytes every time.

Marshal writes a reference where an object is used more than once *in the process*, so what a
process did before shows in the bytes. Each fixed run of files is therefore compiled in a process
that did nothing else, and the hash seed is fixed by the build rule.
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
_RUN = 64  # files a process compiles
_UNCHECKED_HASH = 0b01
_LEVEL = 12


@dataclasses.dataclass(frozen=True, slots=True)
class Compiled:
    """A source file's parts, ready to be written."""

    path: str
    pyc: bytes | None  # None where the source is not valid for this Python
    packed: bytes | None  # the pyc as a zstd frame, if it is to be stored so
    deflated: bytes
    crc: int
    size: int
    problem: str


Source = tuple[str, str, bool]


def compile_all(files: list[Source]) -> Iterator[Compiled]:
    """Compiles `files`: (path below the import root, path on disk, pack the code), in order."""
    if len(files) < _RUN // 4:
        yield from _compile_run(files)
        return
    for done in compile_runs(runs_of(files)):
        yield from done


def runs_of(files: list[Source]) -> list[list[Source]]:
    """Divides `files` into those that one process compiles."""
    return [files[i : i + _RUN] for i in range(0, len(files), _RUN)]


def compile_runs(runs: list[list[Source]]) -> Iterator[list[Compiled]]:
    """Compiles each run in a process forked from this one."""
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
            warnings.simplefilter("ignore")  # what upstream wrote is upstream's to mend
            code = compile(source, path, "exec", dont_inherit=True, optimize=0)
        header = importlib.util.MAGIC_NUMBER + struct.pack("<L", _UNCHECKED_HASH)
        pyc = header + importlib.util.source_hash(source) + marshal.dumps(code)
    except (SyntaxError, ValueError) as error:
        problem = f"{disk}: {error}"
    packed = _par.compress(pyc, _LEVEL) if pack and pyc is not None else None
    return Compiled(path, pyc, packed, deflate(source), zlib.crc32(source), len(source), problem)


def deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()
