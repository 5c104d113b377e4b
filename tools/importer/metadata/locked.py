# SPDX-License-Identifier: Apache-2.0
"""Read the locked wheels and Bazel modules, which have no METADATA files.

Neither the lock files nor MODULE.bazel state licences, so third_party/licences.json does. If it
omits a package, the package's licence counts as unknown (NOASSERTION).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tools.importer.errors import UserError
from tools.importer.metadata.starlark import calls
from tools.importer.metadata.vendored import (
    NEWER_LOCK,
    lock_key,
    newer_wheels,
    read_json,
    read_text,
    requirement_key,
)

LICENCES = "third_party/licences.json"
LOCK = "third_party/pypi/lock.json"


@dataclass(frozen=True)
class Locked:
    """A wheel or module. `key` is its name in the lock file, `licence` an SPDX expression or ""."""

    key: str
    name: str
    version: str
    purl: str
    licence: str
    filename: str = ""
    sha256: str = ""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wheels:
    """The locked wheels. `direct` contains the lock keys of the packages in requirements.in.

    `of_torch` contains the keys of torch's requirements. `of_tests` contains the keys of the test
    groups, whose wheels are not part of any program.
    """

    packages: tuple[Locked, ...]
    direct: tuple[str, ...]
    of_torch: tuple[str, ...]
    of_tests: tuple[str, ...] = ()


def wheels(workspace: Path) -> Wheels:
    """Read the wheels in the lock files. Raises UserError if a file is missing or corrupt."""
    room = workspace / "third_party" / "pypi"
    licences = _licences(workspace, "pypi")
    of_torch = read_json(room / "lock.json").get("torch_requires")
    if not isinstance(of_torch, list):
        raise UserError(
            f"{room / 'lock.json'}: no 'torch_requires'. Run third_party/pypi/update.py"
        )
    packages = _packages(room / "lock.json", licences)
    direct = _requirement_keys(room / "requirements.in") & packages.keys()
    of_tests: set[str] = set()
    for group in sorted((room / "groups").glob("*.in")):
        packages |= _packages(group.with_suffix(".lock.json"), licences)
        of_tests |= _requirement_keys(group) & packages.keys()
    newer = newer_wheels(workspace)
    _refuse_strays(licences, [*packages, *newer], "pypi")
    if newer:
        packages |= _packages(workspace / NEWER_LOCK, licences, newer)
    return Wheels(
        tuple(packages.values()), tuple(sorted(direct)), tuple(of_torch), tuple(sorted(of_tests))
    )


def modules(workspace: Path) -> tuple[Locked, ...]:
    """Read the direct dependencies in MODULE.bazel. Raises UserError if one has no version."""
    licences = _licences(workspace, "bazel")
    file = workspace / "MODULE.bazel"
    locked = []
    for dep in calls(file, "bazel_dep"):
        name, version = dep.get("name"), dep.get("version")
        if not (isinstance(name, str) and isinstance(version, str)):
            raise UserError(f"{file}: bazel_dep '{name}' has no version. Pin it there")
        purl = f"pkg:bazel/{name}@{version}"
        locked.append(Locked(name, name, version, purl, licences.get(name, "")))
    _refuse_strays(licences, (module.key for module in locked), "bazel")
    return tuple(locked)


def own_module(workspace: Path) -> tuple[str, str]:
    """Return the workspace's name and version. Raises UserError if either is missing."""
    for call in calls(workspace / "MODULE.bazel", "module"):
        if {"name", "version"} <= call.keys():
            return str(call["name"]), str(call["version"])
    raise UserError(
        f"{workspace / 'MODULE.bazel'}: no module(...) with a name and a version. Add them"
    )


def _packages(
    lock: Path, licences: Mapping[str, str], keys: Mapping[str, str] | None = None
) -> dict[str, Locked]:
    """Return the packages in a lock file, keyed by lock key, or by its value in `keys`."""
    keys = keys or {}
    rows = read_json(lock).get("packages")
    if not isinstance(rows, dict):
        raise UserError(f"{lock}: no 'packages'. Run third_party/pypi/update.py")
    try:
        wheels = [_wheel(key, row, licences.get(key, ""), keys) for key, row in rows.items()]
    except (KeyError, TypeError) as error:
        raise UserError(f"{lock}: {error!r}. Run third_party/pypi/update.py") from None
    return {wheel.key: wheel for wheel in wheels}


def _requirement_keys(requirements: Path) -> set[str]:
    """Return the lock keys of the packages in a requirements file."""
    lines = (line.split("#", 1)[0] for line in read_text(requirements).splitlines())
    return {key for line in lines if (key := requirement_key(line))}


def _wheel(key: str, row: Mapping[str, object], licence: str, keys: Mapping[str, str]) -> Locked:
    needs = row["requires"]
    if not isinstance(needs, list):
        raise TypeError(f"requires of {key} is not a list")
    distribution, version = str(row["distribution"]), str(row["version"])
    # Package URLs use PyPI's normalized names, in lower case and with dashes.
    name = lock_key(distribution).replace("_", "-")
    return Locked(
        key=keys.get(key, key),
        name=distribution,
        version=version,
        purl=f"pkg:pypi/{name}@{quote(version, safe='')}",
        licence=licence,
        filename=str(row["filename"]),
        sha256=str(row["sha256"]),
        needs=tuple(keys.get(need, need) for need in needs),
    )


def _licences(workspace: Path, kind: str) -> Mapping[str, str]:
    table = read_json(workspace / LICENCES).get(kind)
    if not isinstance(table, dict):
        raise UserError(
            f"{workspace / LICENCES}: no object '{kind}'. Add one: name -> SPDX licence"
        )
    return table


def _refuse_strays(licences: Iterable[str], known: Iterable[str], kind: str) -> None:
    strays = sorted(set(licences) - set(known))
    if strays:
        raise UserError(
            f"{LICENCES}: '{kind}' has no package '{strays[0]}' any more. Delete its line"
        )
