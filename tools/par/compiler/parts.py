# SPDX-License-Identifier: Apache-2.0
"""Cut a PAR into files (the launcher, each bundle, and the program), which the launcher joins.

An image stores these files in several layers. An edit changes only the program's part, which
contains the program's own package and the index. A bundle's part has the same bytes in every
program. The zip's central directory, which the launcher does not read, is omitted.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterable
from pathlib import Path

import _par

from tools.par.compiler.container import FOOTER, FOOTER_SIZE, PAGE, read_index
from tools.par.compiler.launcher_seal import (
    IN_PARTS,
    NO_DOORS,
    find_seal,
    read_seal,
    seal_record,
)

LIST_SUFFIX = ".par_parts"  # launcher/invocation.c appends this to the launcher's path
LAUNCHER, LIBRARIES, PROGRAM = "launcher", "libraries", "program"


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a PAR: the launcher, a bundle, the workspace's other code, or the program."""

    name: str
    data: bytes | memoryview

    @property
    def size(self) -> int:
        return len(self.data)

    @functools.cached_property
    def digest(self) -> str:
        """Return the SHA-256 of the part, in hexadecimal digits."""
        return hashlib.sha256(self.data).hexdigest()


def cut(par: memoryview, path: Path) -> list[Part]:
    """Return the parts of the PAR whose bytes are `par`, in file order.

    The first part is the launcher, which is executable. The last one is the program. path: used
    only in error messages.
    """
    index, _ = read_index(par, path)
    rows = index.get("parts") or ()
    starts = [start for _, start in rows]
    if len(rows) < 2 or starts != sorted(set(starts)) or any(start % PAGE for start in starts):
        raise ValueError(f"{path}: found no list of its parts; link it again with this compiler")
    launcher = bytes(par[: starts[1]])
    offset, flags = read_seal(launcher, len(par), path)
    parts = [_launcher(launcher, offset, flags)]
    for (name, start), end in zip(rows[1:-1], starts[2:], strict=True):
        if start < end:
            parts.append(Part(name, par[start:end]))
    parts.append(Part(PROGRAM, _without_directory(par, parts, starts[-1])))
    return parts


def launcher_part(launcher: bytes, path: Path, *, doors: bool) -> Part:
    """Return the launcher's part of each program that is linked with this launcher.

    path: used only in error messages. doors: whether the
    program obeys the PAR_* environment variables.
    """
    padded = launcher + bytes(-len(launcher) % PAGE)
    return _launcher(padded, find_seal(launcher, path), 0 if doors else NO_DOORS)


def bundle_part(archive: memoryview, path: Path) -> Part | None:
    """Return the bundle's part of each program that is linked with it, or None if it is empty.

    archive: the contents of the bundle's .parlib. path: used only in error messages.
    """
    index, end = read_index(archive, path)
    data = bytes(archive[:end])
    return Part(index["bundles"][0][0], data + bytes(-end % PAGE)) if data else None


def list_of_parts(launcher: Part, rest: Iterable[tuple[Part, str]]) -> bytes:
    """Return the contents of the file NAME.par_parts, which launcher/archive.c reads.

    That file lists the size and path of every part except the launcher. rest: these parts, each
    with its path relative to the directory that contains NAME.par_parts.
    """
    rows = [(part.size, file) for part, file in rest]
    total = launcher.size + sum(size for size, _ in rows)
    lines = [f"PAR parts {total:016x}\n", *(f"{size:016x} {file}\n" for size, file in rows)]
    return "".join(lines).encode()


def _launcher(padded: bytes, seal: int, flags: int) -> Part:
    """Return the launcher, with a seal that says that the other parts are separate files."""
    record = seal_record(len(padded), flags=flags | IN_PARTS)
    return Part(LAUNCHER, padded[:seal] + record + padded[seal + len(record) :])


def _without_directory(par: memoryview, before: list[Part], start: int) -> bytes:
    """Return the program's part, without the zip's central directory and with a new footer."""
    match = FOOTER.fullmatch(par[-FOOTER_SIZE:])
    assert match is not None  # read_index has checked the footer
    offset, size, digest, _, archive_start, *_ = (int(number, 16) for number in match.groups())
    numbers = (offset, size, digest, offset + size + FOOTER_SIZE, archive_start)
    head = b"PAR index" + b" %016x" * 5 % numbers + b" "
    contents = bytes(par[start : offset + size]) + head
    launcher = before[0].data
    archive = b"".join((launcher[archive_start:], *(part.data for part in before[1:]), contents))
    return contents + b"%016x %016x\n" % (_par.hash(launcher[:archive_start]), _par.hash(archive))
