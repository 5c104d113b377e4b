# SPDX-License-Identifier: Apache-2.0
"""Dependencies without a room of their own: wheels of the lock, Bazel modules; and their licences.

Neither the lock nor MODULE.bazel says a licence, so third_party/licences.json does. A package that has
no line there counts as unknown (NOASSERTION), never as free.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from tools.importer.errors import UserError
from tools.importer.metadata.starlark import calls
from tools.importer.metadata.vendored import read_json, read_text

LICENCES = "third_party/licences.json"


@dataclass(frozen=True)
class Locked:
    """One wheel or module. `key` is its name in the lock, `licence` an SPDX expression or empty."""

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
    """The lock. `direct` are the keys that requirements.in asks for, `of_torch` those of torch."""

    packages: tuple[Locked, ...]
    direct: tuple[str, ...]
    of_torch: tuple[str, ...]


def wheels(workspace: Path) -> Wheels:
    """Read the lock of wheels. Raises UserError."""
    file = workspace / "third_party" / "pypi" / "lock.json"
    lock, licences = read_json(file), _licences(workspace, "pypi")
    rows, of_torch = lock.get("packages"), lock.get("torch_requires")
    if not (isinstance(rows, dict) and isinstance(of_torch, list)):
        raise UserError(
            f"{file}: no 'packages' or 'torch_requires'. Run third_party/pypi/update.py"
        )
    try:
        packages = tuple(_wheel(key, row, licences.get(key, "")) for key, row in rows.items())
    except (KeyError, TypeError) as error:
        raise UserError(f"{file}: {error!r}. Run third_party/pypi/update.py") from None
    _refuse_strays(licences, rows, "pypi")
    requirements = read_text(workspace / "third_party" / "pypi" / "requirements.in")
    lines = (line.split("#", 1)[0] for line in requirements.splitlines())
    names = (re.match(r"\s*([\w.-]+)", line) for line in lines)
    asked = {_key(name[1]) for name in names if name}
    return Wheels(packages, tuple(sorted(asked & rows.keys())), tuple(of_torch))


def modules(workspace: Path) -> tuple[Locked, ...]:
    """Read the modules that MODULE.bazel takes. Raises UserError."""
    licences = _licences(workspace, "bazel")
    file = workspace / "MODULE.bazel"
    found = []
    for dep in calls(file, "bazel_dep"):
        name, version = dep.get("name"), dep.get("version")
        if not (isinstance(name, str) and isinstance(version, str)):
            raise UserError(f"{file}: bazel_dep '{name}' has no version. Pin it there")
        purl = f"pkg:bazel/{name}@{version}"
        found.append(Locked(name, name, version, purl, licences.get(name, "")))
    _refuse_strays(licences, (module.key for module in found), "bazel")
    return tuple(found)


def own_module(workspace: Path) -> tuple[str, str]:
    """Name and version of the workspace itself. Raises UserError."""
    for call in calls(workspace / "MODULE.bazel", "module"):
        if {"name", "version"} <= call.keys():
            return str(call["name"]), str(call["version"])
    raise UserError(
        f"{workspace / 'MODULE.bazel'}: no module(...) with a name and a version. Add them"
    )


def _wheel(key: str, row: Mapping[str, object], licence: str) -> Locked:
    needs = row["requires"]
    if not isinstance(needs, list):
        raise TypeError(f"requires of {key} is no list")
    distribution, version = str(row["distribution"]), str(row["version"])
    # Package URLs have PyPI's own normal form of names: lower case, dashes.
    name = _key(distribution).replace("_", "-")
    return Locked(
        key=key,
        name=distribution,
        version=version,
        purl=f"pkg:pypi/{name}@{quote(version, safe='')}",
        licence=licence,
        filename=str(row["filename"]),
        sha256=str(row["sha256"]),
        needs=tuple(needs),
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


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()
