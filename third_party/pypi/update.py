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
import dataclasses
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

if not __package__:  # Started by its path: imports are from the workspace's root.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from third_party.pypi import fetch_wheel, host_pip, lock, target

_EVERYTHING = "*"


class UpdateError(Exception):
    """The lock could not be made; the message says why."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--upgrade", nargs="?", action="append", default=[], const=_EVERYTHING)
    flags = parser.parse_args()
    try:
        upgrade = [lock.normalise(name) for name in flags.upgrade]
        old = _read(lock.FILE)
        new = resolve(old, upgrade)
        results = [(lock.FILE, old, new)]
        for group in lock.groups():
            old = _read(group.file)
            results.append((group.file, old, resolve_group(group, new, old, upgrade)))
    except (UpdateError, fetch_wheel.FetchError, host_pip.NoPipError, OSError) as error:
        print(f"third_party/pypi/update.py: {error}", file=sys.stderr)
        return 1
    for file, old, new in results:
        write(file, new.dumps())
        for line in changes(old, new):
            print(f"{file.name}: {line}")
    return 0


def resolve(old: lock.Lock | None, upgrade: Sequence[str]) -> lock.Lock:
    """The lock for the inputs as they are on disk; `upgrade` holds keys or the mark for all."""
    if sys.version_info[:2] != target.PYTHON or platform.machine() != "x86_64":
        raise UpdateError(
            f"{sys.executable} is Python {platform.python_version()} on {platform.machine()}, but"
            f" pip decides conditional requirements by the interpreter it runs on: run this with"
            f" {target.DESCRIPTION}."
        )
    lines = lock.requirement_lines(lock.REQUIREMENTS.read_text())
    pin = json.loads(lock.TORCH_PIN.read_text())
    torch = lock.torch_requirement(lock.TORCH_PIN.read_text())
    alone = lock.data_only(lock.ANNOTATIONS.read_text())
    pip = host_pip.find()
    if pip.wheel:
        sys.path.append(str(pip.wheel))
    from third_party.pypi import resolve as rows  # pip's wheel may hold what it imports.

    data_lines = [line for line in lines if lock.requirement_key(line) in alone]
    code_lines = [torch, *(line for line in lines if line not in data_lines)]
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        # By its hash, so that no other torch can take part.
        fetch_wheel.fetch(
            fetch_wheel.Pin(
                torch,
                pin["wheel"]["filename"],
                pin["wheel"]["sha256"],
                "third_party/torch/pin.json",
            ),
            directory,
            extra_index=pin["wheel"].get("extra_index"),
        )
        constraints = directory / "constraints.txt"
        constraints.write_text("".join(_constraints(old, lines, upgrade)))
        common = [f"--find-links={directory}", f"--constraint={constraints}"]
        packages = rows.packages(_report(pip, directory, [*common, *code_lines]), code_lines)
        if data_lines:
            report = _report(pip, directory, [*common, "--no-deps", *data_lines])
            needless = {**report, "install": [_without_needs(row) for row in report["install"]]}
            packages |= rows.packages(needless, data_lines)
    torch_package = packages.pop("torch")
    return lock.Lock(lock.digest([*lines, torch], alone), torch_package.requires, packages)


def resolve_group(
    group: lock.Group, base: lock.Lock, old: lock.Lock | None, upgrade: Sequence[str]
) -> lock.Lock:
    """The lock of a group: what it needs and `base` does not have, beside the versions of `base`."""
    from third_party.pypi import resolve as rows

    lines = lock.requirement_lines(group.requirements.read_text())
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        constraints = directory / "constraints.txt"
        # What the main lock took over follows that one alone.
        own = _less(old, base) if old else None
        constraints.write_text(
            "".join([*_constraints(base, [], []), *_constraints(own, lines, upgrade)])
        )
        report = _report(host_pip.find(), directory, [f"--constraint={constraints}", *lines])
    return _less(lock.Lock(lock.digest(lines, []), (), rows.packages(report, lines)), base)


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


def _less(value: lock.Lock, base: lock.Lock) -> lock.Lock:
    """Without the packages that `base` has."""
    packages = {key: row for key, row in value.packages.items() if key not in base.packages}
    return dataclasses.replace(value, packages=packages)


def _read(file: Path) -> lock.Lock | None:
    return lock.loads(file.read_text()) if file.exists() else None


def _constraints(
    old: lock.Lock | None, lines: Iterable[str], upgrade: Sequence[str]
) -> Iterable[str]:
    """Holds what is locked, less what is upgraded and what requirements.in itself pins."""
    pinned = {lock.requirement_key(line) for line in lines if "==" in line}
    free = {*upgrade, *pinned}
    if not old or _EVERYTHING in free:
        return
    for key, package in sorted(old.packages.items()):
        if key not in free:
            yield f"{package.distribution}=={package.version}\n"


def _report(pip: host_pip.Pip, directory: Path, arguments: Sequence[str]) -> dict[str, Any]:
    report = directory / "report.json"
    command = [
        *pip.argv, "install", "--dry-run", "--ignore-installed", "--only-binary=:all:",
        "--quiet", "--no-input", "--disable-pip-version-check",
        f"--target={directory / 'nowhere'}", f"--report={report}",
        *target.pip_options(), *arguments,
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=directory)
    if result.returncode:
        errors = [line for line in result.stderr.splitlines() if line.startswith("ERROR")]
        raise UpdateError(
            f"pip exited {result.returncode}: {(errors or ['no message'])[-1]}."
            " If a locked version is in the way, add --upgrade or --upgrade NAME."
        )
    loaded: dict[str, Any] = json.loads(report.read_text())
    return loaded


def _without_needs(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "metadata": {**row["metadata"], "requires_dist": []}}


if __name__ == "__main__":
    sys.exit(main())
