# SPDX-License-Identifier: Apache-2.0
"""Divide programs into layers: each PAR is cut into parts, and a layer contains related parts.

The interpreter comes first, then the packages that the programs share, then other code of the
workspace, then the programs' own packages. A large package has its own layer, so a registry stores
it once for all images. An edit of the workspace's code changes only the last two.
"""

from __future__ import annotations

import dataclasses
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
    """A PAR, cut into parts.

    own: the parts that contain the workspace's code, the program's part last. Empty if the program
    has not been linked.
    """

    name: str
    launcher: parts.Part
    bundles: list[parts.Part]
    own: list[parts.Part]

    @property
    def path(self) -> str:
        return f"{DIRECTORY}/{self.name}"


def linked(path: Path) -> Program:
    """Cut a PAR into parts, which are views of the mapped file.

    Raises ValueError if the file is not a PAR.
    """
    launcher, *bundles, code = parts.cut(_mapped(path), path)
    # The libraries are the last part before the program's. A package may have the same name.
    first = len(bundles) - 1 if bundles and bundles[-1].name == parts.LIBRARIES else len(bundles)
    return Program(path.name, launcher, bundles[:first], [*bundles[first:], code])


def unlinked(name: str, launcher: Path, bundles: list[Path], *, doors: bool) -> Program:
    """Return the program that will be linked from these files, without the workspace's code.

    doors: whether it will obey the PAR_* environment variables.
    """
    cut = (parts.bundle_part(_mapped(path), path) for path in bundles)
    return Program(
        name,
        parts.launcher_part(launcher.read_bytes(), launcher, doors=doors),
        [part for part in cut if part],
        [],
    )


def shared_layers(programs: list[Program]) -> list[tuple[str, list[Entry]]]:
    """Return (title, entries) for each layer without code of the workspace."""
    interpreter = {
        CACHE: Entry(CACHE, 0o700, owner=USER),
        "/tmp": Entry("/tmp", 0o1777),
        **{entry.path: entry for entry in _launchers(programs)},
    }
    packages: dict[str, Entry] = {}
    for program in programs:
        for part in program.bundles:
            table = interpreter if part.name in _INTERPRETER else packages
            table[_path(part)] = Entry(_path(part), data=part.data)
    return [
        ("interpreter", list(interpreter.values())),
        *_of_packages(list(packages.values())),
    ]


def layers(programs: list[Program]) -> list[tuple[str, list[Entry]]]:
    """Return (title, entries) for each layer, starting with the one that changes least often."""
    names = [program.name for program in programs]
    if len(set(names)) != len(names):
        raise ValueError(f"two programs have the same name ({', '.join(names)}); rename one")
    libraries: dict[str, Entry] = {}
    own: list[Entry] = []
    for program in programs:
        *shared, code = program.own
        path = f"{program.path}.program"
        files = [(part, _path(part)) for part in (*program.bundles, *shared)]
        listed = [(part, file.removeprefix(f"{DIRECTORY}/")) for part, file in files]
        listed.append((code, path.removeprefix(f"{DIRECTORY}/")))
        libraries |= {_path(part): Entry(_path(part), data=part.data) for part in shared}
        own.append(Entry(path, data=code.data))
        own.append(
            Entry(
                program.path + parts.LIST_SUFFIX,
                data=parts.list_of_parts(program.launcher, listed),
            )
        )
    return [
        *shared_layers(programs),
        *([("libraries", list(libraries.values()))] if libraries else []),
        ("programs", own),
    ]


def _mapped(path: Path) -> memoryview:
    with path.open("rb") as stream:
        return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))


def _launchers(programs: list[Program]) -> Iterator[Entry]:
    """Yield the programs' launchers. Identical launchers are stored once, as hard links.

    A static program's launcher is large, because it contains torch. Symbolic links would not work,
    because a launcher finds its program by its own path.
    """
    paths: dict[str, str] = {}
    for program in sorted(programs, key=lambda program: program.path):
        first = paths.setdefault(program.launcher.digest, program.path)
        if first == program.path:
            yield Entry(program.path, 0o755, program.launcher.data)
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
    return f"{DIRECTORY}/parts/{part.name}-{part.digest[:16]}"
