# SPDX-License-Identifier: Apache-2.0
"""Divide programs into layers: each PAR is cut into parts, and a layer contains related parts.

The interpreter comes first, then the packages that the programs share, then other code of the
workspace, then the programs' own packages. A large package has its own layer, so a registry stores
it once for all images.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import mmap
from collections.abc import Iterator
from pathlib import Path

from tools.oci.layer import Entry
from tools.par.compiler import parts

DIRECTORY = "/app"
CACHE = "/cache"
USER = 65532  # the conventional user ID of images that do not run as root
# Bundles (packed directories) that every program contains, and that change only if the workspace's
# interpreter changes.
_INTERPRETER = frozenset(("stdlib", "runtime", "python_headers", "cc_runtime", "licences"))
# Packages smaller than this share a layer, because each layer costs a request per pull.
_LARGE = 8 << 20
_MOST_LARGE = 100  # fewer than 127, the limit of container engines


@dataclasses.dataclass(frozen=True)
class Program:
    """A memory-mapped PAR, cut into parts."""

    name: str
    parts: list[parts.Part]

    @property
    def path(self) -> str:
        return f"{DIRECTORY}/{self.name}"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Program]:
    """Map a PAR into memory. Raises ValueError if the file is not a PAR."""
    with path.open("rb") as stream:
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    # The parts are views of the mapping, so the file stays mapped until they are deleted.
    yield Program(path.name, parts.cut(memoryview(mapped), path))


def layers(programs: list[Program]) -> list[tuple[str, list[Entry]]]:
    """Return (title, entries) for each layer, starting with the one that changes least often."""
    names = [program.name for program in programs]
    if len(set(names)) != len(names):
        raise ValueError(f"two programs have the same name ({', '.join(names)}); rename one")
    libraries: dict[str, Entry] = {}
    interpreter = {
        CACHE: Entry(CACHE, 0o700, owner=USER),
        "/tmp": Entry("/tmp", 0o1777),
        **{entry.path: entry for entry in _launchers(programs)},
    }
    packages: dict[str, Entry] = {}
    own: list[Entry] = []
    for program in programs:
        launcher, *bundles, code = program.parts
        files = []
        for part in bundles:
            entry = Entry(_path(part), data=part.data)
            table = interpreter if part.name in _INTERPRETER else packages
            (libraries if part.name == parts.LIBRARIES else table)[entry.path] = entry
            files.append((part, entry.path.removeprefix(f"{DIRECTORY}/")))
        path = f"{program.path}.program"
        files.append((code, path.removeprefix(f"{DIRECTORY}/")))
        own.append(Entry(path, data=code.data))
        listed = parts.list_of_parts(launcher, files)
        own.append(Entry(program.path + parts.LIST_SUFFIX, data=listed))
    return [
        ("interpreter", list(interpreter.values())),
        *_of_packages(list(packages.values())),
        *([("libraries", list(libraries.values()))] if libraries else []),
        ("programs", own),
    ]


def _launchers(programs: list[Program]) -> Iterator[Entry]:
    """Yield the programs' launchers. Identical launchers are stored once, as hard links.

    A static program's launcher is large, because it contains torch. Symbolic links would not work,
    because a launcher finds its program by its own path.
    """
    paths: dict[str, str] = {}
    for program in sorted(programs, key=lambda program: program.path):
        data = program.parts[0].data
        first = paths.setdefault(hashlib.sha256(data).hexdigest(), program.path)
        if first == program.path:
            yield Entry(program.path, 0o755, data)
        else:
            yield Entry(program.path, 0o755, same_as=first)


def _of_packages(entries: list[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    by_size = sorted(entries, key=lambda entry: (-len(entry.data or b""), entry.path))
    large = [entry for entry in by_size if len(entry.data or b"") >= _LARGE][:_MOST_LARGE]
    for entry in sorted(large, key=lambda entry: entry.path):
        yield Path(entry.path).name.rpartition("-")[0], [entry]
    small = [entry for entry in entries if entry not in large]
    if small:
        yield "packages", small


def _path(part: parts.Part) -> str:
    """Return a path that contains the part's hash, so that programs share identical parts."""
    return f"{DIRECTORY}/parts/{part.name}-{hashlib.sha256(part.data).hexdigest()[:16]}"
