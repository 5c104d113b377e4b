#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Resolve requirements.in to lock.json, and groups/NAME.in to groups/NAME.lock.json.

    third_party/pypi/update.py                     follow changed inputs, keep other locked versions
    third_party/pypi/update.py --upgrade           upgrade everything
    third_party/pypi/update.py --upgrade numpy     upgrade one package

pip resolves, with the indexes that the user configured.
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

if not __package__:  # Started by its path, so the workspace's root is not on sys.path.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from third_party.pypi import host_pip, lock, pip_report, resolution, target, torch_metadata
from third_party.pypi.fetch_wheel import FetchError
from third_party.pypi.host_pip import NoPipError
from third_party.pypi.pip_report import ConflictError
from third_party.pypi.resolution import EVERYTHING, Inputs, Locks


class UpdateError(Exception):
    """A failed update; the message has the reason."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--upgrade", nargs="?", action="append", default=[], const=EVERYTHING)
    flags = parser.parse_args()
    start = time.monotonic()
    try:
        upgrade = [name if name == EVERYTHING else lock.normalise(name) for name in flags.upgrade]
        old = read_locks()
        new = resolve(old, upgrade)
    except (UpdateError, ConflictError, FetchError, NoPipError, OSError) as error:
        print(f"third_party/pypi/update.py: {error}", file=sys.stderr)
        return 1
    assert new.main
    results = [(lock.FILE, old.main, new.main)]
    results += [
        (group.file, old.groups.get(group.name), new.groups[group.name]) for group in lock.groups()
    ]
    for file, before, after in results:
        write(file, after.dumps())
        for line in changes(before, after):
            print(f"{file.name}: {line}")
    print(f"update.py: {time.monotonic() - start:.0f} s", file=sys.stderr)
    return 0


def read_inputs() -> Inputs:
    """Read the input files."""
    return Inputs(
        lines=tuple(lock.requirement_lines(lock.REQUIREMENTS.read_text())),
        groups={
            group.name: tuple(lock.requirement_lines(group.requirements.read_text()))
            for group in lock.groups()
        },
        torch=lock.torch_requirement(lock.TORCH_PIN.read_text()),
        alone=lock.data_only(lock.ANNOTATIONS.read_text()),
    )


def read_locks() -> Locks:
    """Read the locks. A new group has none."""
    return Locks(
        main=lock.loads(lock.FILE.read_text()) if lock.FILE.exists() else None,
        groups={
            group.name: lock.loads(group.file.read_text())
            for group in lock.groups()
            if group.file.exists()
        },
    )


def resolve(old: Locks, upgrade: Sequence[str]) -> Locks:
    """Return the locks for the input files. `upgrade` has keys of packages, or EVERYTHING."""
    if sys.version_info[:2] != target.PYTHON or platform.machine() != "x86_64":
        raise UpdateError(
            f"{sys.executable} is Python {platform.python_version()} on {platform.machine()}, but"
            f" pip evaluates environment markers for its own interpreter: run this with"
            f" {target.DESCRIPTION}."
        )
    unknown = sorted(set(upgrade) - {EVERYTHING} - old.keys())
    if unknown:
        raise UpdateError(
            f"--upgrade {unknown[0]}: no lock has that package. Give a name of"
            " third_party/pypi/lock.json or groups/*.lock.json, or a line in requirements.in."
        )
    pip = host_pip.find()
    if pip.wheel:
        sys.path.append(str(pip.wheel))  # `resolve` may import packaging from it.
    inputs = read_inputs()
    same_torch = old.main and old.main.inputs == lock.digest(
        [*old.main.requirements, inputs.torch], inputs.alone
    )
    needs = old.main.torch_needs if old.main and same_torch else torch_metadata.read()
    with tempfile.TemporaryDirectory() as scratch:
        torch_metadata.write_stand_in(Path(scratch), inputs.torch, needs)
        return resolution.update(
            old,
            inputs,
            upgrade=upgrade,
            ask=functools.partial(pip_report.ask, links=Path(scratch)),
            torch_needs=lambda: needs,
        )


def changes(old: lock.Lock | None, new: lock.Lock) -> list[str]:
    """Return one line for each added, removed or changed package."""
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
