#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Resolve requirements.in to lock.json, and groups/NAME.in to groups/NAME.lock.json.

    third_party/pypi/update.py                     follow changed inputs, keep other locked versions
    third_party/pypi/update.py --upgrade           upgrade everything
    third_party/pypi/update.py --upgrade numpy     upgrade one package

From another workspace, this command resolves that workspace's NAME.in to NAME.lock.json. Packages
that torch_google's locks pin keep their versions:

    bazel run @torch_google//third_party/pypi:update -- requirements.in
    bazel run @torch_google//third_party/pypi:update -- --upgrade=einops requirements.in

pip chooses the versions, from the indexes that the user configured.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import platform
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

if not __package__:  # If run as a script, put the workspace's root on sys.path.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from third_party.pypi import (
    extra_locks,
    host_pip,
    lock,
    pip_report,
    resolution,
    target,
    torch_metadata,
)
from third_party.pypi.extra_locks import Base, PinnedError
from third_party.pypi.fetch_wheel import FetchError
from third_party.pypi.host_pip import NoPipError
from third_party.pypi.pip_report import ConflictError
from third_party.pypi.resolution import EVERYTHING, Ask, Inputs, Locks

# The path of a lock, its old contents (None if the file did not exist), and its new contents.
Result = tuple[Path, lock.Lock | None, lock.Lock]


class UpdateError(Exception):
    """Raised if the locks cannot be updated. The message gives the reason."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--upgrade", nargs="?", action="append", default=[], const=EVERYTHING)
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="NAME.in", help="requirements of another workspace"
    )
    flags = parser.parse_args()
    start = time.monotonic()
    try:
        upgrade = [name if name == EVERYTHING else lock.normalize(name) for name in flags.upgrade]
        results = extra_results(flags.files, upgrade) if flags.files else own_results(upgrade)
    except (
        UpdateError,
        PinnedError,
        ConflictError,
        FetchError,
        NoPipError,
        OSError,
        ValueError,
    ) as error:
        print(f"third_party/pypi/update.py: {error}", file=sys.stderr)
        return 1
    for file, before, after in results:
        write(file, after.dumps())
        for line in changes(before, after):
            print(f"{file.name}: {line}")
    print(f"update.py: {time.monotonic() - start:.0f} s", file=sys.stderr)
    return 0


def own_results(
    upgrade: Sequence[str], requirements: Mapping[Path, str] | None = None
) -> list[Result]:
    """Resolve torch_google's own requirements.

    `requirements` maps paths of requirements files to contents that replace those on disk.
    """
    if "BUILD_WORKSPACE_DIRECTORY" in os.environ:
        raise UpdateError(
            "no file is named. For your own packages, name NAME.in files. For the locks of"
            " torch_google, start third_party/pypi/update.py there, without `bazel run`."
        )
    old = read_locks()
    new = resolve(old, upgrade, requirements or {})
    assert new.main
    return [
        (lock.FILE, old.main, new.main),
        *(
            (group.file, old.groups.get(group.name), new.groups[group.name])
            for group in lock.groups()
        ),
    ]


def extra_results(files: Sequence[Path], upgrade: Sequence[str]) -> list[Result]:
    """Resolve NAME.in files of another workspace.

    Paths are relative to the directory in which the user ran Bazel.
    """
    check_python()
    directory = Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    requirements = {str(file): directory / file for file in files}
    for name, path in requirements.items():
        if path.suffix != ".in":
            raise UpdateError(f"{name}: its name does not end in .in. The lock is NAME.lock.json.")
    outputs = {name: path.with_suffix(".lock.json") for name, path in requirements.items()}
    old = {name: lock.loads(path.read_text()) for name, path in outputs.items() if path.exists()}
    known = {key for value in old.values() for key in value.packages}
    own = read_locks()
    assert own.main
    shared = [own.main, *(own.groups[name] for name in lock.SHARED_GROUPS)]
    base = Base.of(shared, torch=lock.torch_requirement(lock.TORCH_PIN.read_text()))
    _check_upgrade(upgrade, known | base.rows.keys(), "the named locks")
    with pip_with_torch(base.torch, own.main.torch_needs) as ask:
        new = extra_locks.update(
            old,
            {name: lock.requirement_lines(path.read_text()) for name, path in requirements.items()},
            base=base,
            upgrade=upgrade,
            ask=ask,
        )
    return [(path, old.get(name), new[name]) for name, path in outputs.items()]


def read_inputs(requirements: Mapping[Path, str] | None = None) -> Inputs:
    """Read the input files. `requirements` maps paths to contents that replace those on disk."""

    def lines(file: Path) -> tuple[str, ...]:
        text = (requirements or {}).get(file)
        return tuple(lock.requirement_lines(file.read_text() if text is None else text))

    return Inputs(
        lines=lines(lock.REQUIREMENTS),
        groups={group.name: lines(group.requirements) for group in lock.groups()},
        torch=lock.torch_requirement(lock.TORCH_PIN.read_text()),
        alone=lock.data_only(lock.ANNOTATIONS.read_text()),
    )


def read_locks() -> Locks:
    """Read all existing locks. A new group has no lock yet."""
    return Locks(
        main=lock.loads(lock.FILE.read_text()) if lock.FILE.exists() else None,
        groups={
            group.name: lock.loads(group.file.read_text())
            for group in lock.groups()
            if group.file.exists()
        },
    )


def resolve(
    old: Locks, upgrade: Sequence[str], requirements: Mapping[Path, str] | None = None
) -> Locks:
    """Return new locks for the input files. `upgrade` contains keys of packages, or EVERYTHING."""
    check_python()
    _check_upgrade(upgrade, old.keys(), "third_party/pypi/lock.json or groups/*.lock.json")
    inputs = read_inputs(requirements)
    same_torch = old.main and old.main.inputs == lock.digest(
        [*old.main.requirements, inputs.torch], inputs.alone
    )
    needs = old.main.torch_needs if old.main and same_torch else torch_metadata.read()
    with pip_with_torch(inputs.torch, needs) as ask:
        return resolution.update(old, inputs, upgrade=upgrade, ask=ask, torch_needs=lambda: needs)


def check_python() -> None:
    """Raise an UpdateError if pip would evaluate environment markers for another platform."""
    if sys.version_info[:2] != target.PYTHON or platform.machine() != "x86_64":
        raise UpdateError(
            f"{sys.executable} is Python {platform.python_version()} on {platform.machine()}, but"
            f" pip evaluates environment markers for its own interpreter: run this with"
            f" {target.DESCRIPTION}."
        )


def _check_upgrade(upgrade: Sequence[str], known: Collection[str], where: str) -> None:
    unknown = sorted(set(upgrade) - {EVERYTHING} - set(known))
    if unknown:
        raise UpdateError(
            f"--upgrade {unknown[0]}: no lock has that package. Give a name of {where}, or a line in"
            " the requirements."
        )


@contextlib.contextmanager
def pip_with_torch(torch: str, needs: tuple[str, ...]) -> Iterator[Ask]:
    """Yield a function that runs pip to resolve requirements.

    pip uses a small stand-in for torch's wheel. `needs` lists the stand-in's requirements, which
    must be those of the real torch.
    """
    pip = host_pip.find()
    if pip.root:
        sys.path.append(str(pip.root))  # `resolve` may import pip's copy of packaging.
    with tempfile.TemporaryDirectory() as scratch:
        torch_metadata.write_stand_in(Path(scratch), torch, needs)
        yield functools.partial(pip_report.ask, links=Path(scratch))


def changes(old: lock.Lock | None, new: lock.Lock) -> list[str]:
    """Return a line for each added, removed or changed package."""
    before = old.packages if old else {}
    lines = []
    for key in sorted(before.keys() | new.packages.keys()):
        old_row, new_row = before.get(key), new.packages.get(key)
        if old_row != new_row:
            lines.append(
                f"{key}: {old_row.version if old_row else '-'} -> {new_row.version if new_row else '-'}"
            )
    return lines or ["No wheel changed."]


def write(path: Path, text: str) -> None:
    """Replace a file atomically."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


if __name__ == "__main__":
    sys.exit(main())
