#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Resolves requirements.in into lock.json, and groups/NAME.in into groups/NAME.lock.json.

    third_party/pypi/update.py                     keep locked versions, follow the inputs' changes
    third_party/pypi/update.py --upgrade           take the newest of everything
    third_party/pypi/update.py --upgrade numpy     take the newest of one package

pip does the resolving, against whatever index the user set it to.
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

if not __package__:  # Started by its path: imports are from the workspace's root.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from third_party.pypi import host_pip, lock, pip_report, resolution, target, torch_metadata
from third_party.pypi.fetch_wheel import FetchError
from third_party.pypi.host_pip import NoPipError
from third_party.pypi.pip_report import ConflictError
from third_party.pypi.resolution import EVERYTHING, Inputs, Locks


class UpdateError(Exception):
    """The lock could not be made; the message says why."""


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
    """The input files as they are on disk."""
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
    """The locks as they are on disk. A new group has none."""
    return Locks(
        main=lock.loads(lock.FILE.read_text()) if lock.FILE.exists() else None,
        groups={
            group.name: lock.loads(group.file.read_text())
            for group in lock.groups()
            if group.file.exists()
        },
    )


def resolve(old: Locks, upgrade: Sequence[str]) -> Locks:
    """The locks for the inputs as they are on disk; `upgrade` holds keys or the mark for all."""
    if sys.version_info[:2] != target.PYTHON or platform.machine() != "x86_64":
        raise UpdateError(
            f"{sys.executable} is Python {platform.python_version()} on {platform.machine()}, but"
            f" pip decides conditional requirements by the interpreter it runs on: run this with"
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
        sys.path.append(str(pip.wheel))  # It may hold what `resolve` imports.
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
    """One line for each package that came, went or changed."""
    before = old.packages if old else {}
    lines = []
    for key in sorted(before.keys() | new.packages.keys()):
        was, now = before.get(key), new.packages.get(key)
        if was != now:
            lines.append(f"{key}: {was.version if was else '-'} -> {now.version if now else '-'}")
    return lines or ["No wheel changed."]


def write(path: Path, text: str) -> None:
    """Replaces the file at once: a reader sees the old bytes or the new ones."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


if __name__ == "__main__":
    sys.exit(main())
