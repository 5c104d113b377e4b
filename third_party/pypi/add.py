#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Add a package from PyPI to the workspace, with its lock entries, licences and annotations.

    third_party/pypi/add.py einops
    third_party/pypi/add.py 'einops>=0.8' --why 'The example of rearranged axes.'
    third_party/pypi/add.py --group cloud adlfs --licence adlfs=BSD-3-Clause

The script adds a line to requirements.in (or groups/NAME.in), updates the locks, writes the licence
of each new wheel to third_party/licences.json, and marks a wheel in annotations.json if its modules
open files by path. Then it updates the bill of materials, and imports the package in a packed
program (a PAR). If it was interrupted, run it again to continue.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

if not __package__:  # If run as a script, put the workspace's root on sys.path.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from third_party.pypi import fetch_wheel, lock, update
from third_party.pypi.fetch_wheel import FetchError
from third_party.pypi.host_pip import NoPipError
from third_party.pypi.lock import Package
from third_party.pypi.pip_report import ConflictError
from third_party.pypi.wheel_facts import WheelFacts, read_facts

_WORKSPACE = Path(__file__).resolve().parents[2]
_LICENCES = _WORKSPACE / "third_party" / "licences.json"
# The maximum number of modules to name in a note in annotations.json.
_MOST_MODULES = 3


class AddError(Exception):
    """Raised if the package cannot be added. The message gives the reason and the next step."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("requirement", help="a name, with a version only if the design needs it")
    parser.add_argument("--group", help="add it to groups/GROUP.in instead of requirements.in")
    parser.add_argument("--why", help="a comment above the new line")
    parser.add_argument(
        "--licence",
        action="append",
        default=[],
        metavar="NAME=SPDX",
        help="the licence of a new wheel whose metadata has none",
    )
    parser.add_argument("--no-test", action="store_true", help="do not import it in a program")
    flags = parser.parse_args()
    start = time.monotonic()
    try:
        add(flags.requirement, flags.group, flags.why, _licences(flags.licence))
        metadata = [sys.executable, str(_WORKSPACE / "tools" / "import.py"), "metadata"]
        _run("updating the bill of materials", metadata)
        key = lock.requirement_key(flags.requirement)
        if not flags.no_test:
            _run(f"importing {key} in a packed program", import_test(key))
    except (
        AddError,
        update.UpdateError,
        ConflictError,
        FetchError,
        NoPipError,
        OSError,
        ValueError,
        zipfile.BadZipFile,
    ) as error:
        print(f"third_party/pypi/add.py: {error}", file=sys.stderr)
        return 1
    print(f'add.py: "@pypi//{key}" is ready for `deps`. {time.monotonic() - start:.0f} s')
    return 0


def add(requirement: str, group: str | None, why: str | None, licences: Mapping[str, str]) -> None:
    """Add a package to the workspace's files. All wheels are read before any file is written."""
    file = _requirements(group)
    text = file.read_text()
    new_text = with_line(text, requirement, why)
    results = update.own_results([], requirements={file: new_text})
    known = json.loads(_LICENCES.read_text())
    added = {
        key: row
        for _, _, after in results
        for key, row in after.packages.items()
        if key not in known["pypi"]
    }
    facts = {key: _facts(key, row) for key, row in added.items()}
    known["pypi"].update(
        {
            key: licences.get(key) or _licence(key, added[key], package)
            for key, package in facts.items()
        }
    )
    annotations = json.loads(lock.ANNOTATIONS.read_text())
    for key, package in facts.items():
        if package.by_path and key not in annotations:
            annotations[key] = {"why": _reason(package), "zip_safe": False}
    for path, before, after in results:
        for line in update.changes(before, after):
            print(f"{path.name}: {line}", flush=True)
    # Write the licences last: if this run is interrupted, the next one continues with the packages
    # that have no licence.
    update.write(file, new_text)
    for path, _, after in results:
        update.write(path, after.dumps())
    update.write(lock.ANNOTATIONS, _dumps(annotations))
    update.write(_LICENCES, _dumps(known))
    for key, package in facts.items():
        how = "unpacked at the first start" if key in annotations and package.by_path else "mapped"
        print(f"{key}: {known['pypi'][key]}, {how}", flush=True)


def with_line(text: str, requirement: str, why: str | None) -> str:
    """Return the `text` of a requirements file with a line for `requirement` added.

    Raises an AddError if the file has a different line for the same package.
    """
    key = lock.requirement_key(requirement)
    for line in lock.requirement_lines(text):
        if lock.requirement_key(line) == key:
            if line == requirement:
                return text
            raise AddError(
                f"{requirement}: there is a line {line!r}. Edit it, and run"
                " third_party/pypi/update.py"
            )
    comment = f"# {why}\n" if why else ""
    return f"{text.rstrip()}\n\n{comment}{requirement}\n"


def import_test(key: str) -> list[str]:
    """Return a command that imports a package in a packed program."""
    return [
        str(_WORKSPACE / "bazelw"),
        "test",
        "//third_party/pypi:import_test",
        f"--//third_party/pypi:imported_package=@pypi//{key}",
        f"--test_env=IMPORTED_PACKAGE={key}",
    ]


def _requirements(group: str | None) -> Path:
    if group is None:
        return lock.REQUIREMENTS
    files = {each.name: each.requirements for each in lock.groups()}
    if group not in files:
        raise AddError(
            f"--group {group}: the groups are {', '.join(files)}. third_party/pypi/README.md has the"
            " steps for a new group."
        )
    return files[group]


def _licences(options: Sequence[str]) -> dict[str, str]:
    licences = {}
    for option in options:
        name, equals, licence = option.partition("=")
        if not equals or not licence:
            raise AddError(f"--licence {option}: use NAME=SPDX, such as einops=MIT")
        licences[lock.normalize(name)] = licence
    return licences


def _facts(key: str, row: Package) -> WheelFacts:
    print(f"{key}: reading {row.filename}", flush=True)
    requirement = f"{row.distribution}=={row.version}"
    pin = fetch_wheel.Pin(requirement, row.filename, row.sha256, "third_party/pypi")
    with tempfile.TemporaryDirectory() as scratch:
        return read_facts(fetch_wheel.fetch(pin, Path(scratch)))


def _licence(key: str, row: Package, facts: WheelFacts) -> str:
    if not facts.licence:
        raise AddError(
            f"{row.filename}: its metadata has no licence that maps to SPDX. Read its licence file,"
            f" and add --licence {key}=SPDX"
        )
    return facts.licence


def _reason(facts: WheelFacts) -> str:
    names = ", ".join(facts.by_path[:_MOST_MODULES])
    more = len(facts.by_path) - _MOST_MODULES
    return f"Files are opened by path in {names}{f' and {more} more' * (more > 0)}."


def _dumps(document: object) -> str:
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def _run(step: str, command: Sequence[str]) -> None:
    print(f"add.py: {step}", flush=True)
    status = subprocess.run(command, cwd=_WORKSPACE, check=False).returncode
    if status:
        raise AddError(
            f"{step}: exit status {status}; its output is above. To try it again:"
            f" {' '.join(command)}"
        )


if __name__ == "__main__":
    sys.exit(main())
