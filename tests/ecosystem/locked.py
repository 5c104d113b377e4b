# SPDX-License-Identifier: Apache-2.0
"""List the wheels for the virtual environment: torch, libraries, and the TPU backend's imports."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from pathlib import Path

from third_party.pypi import lock
from third_party.pypi.lock import Lock, Package

REQUIREMENTS = Path(__file__).with_name("requirements")
"""The directory of the groups: GROUP.in has the libraries, GROUP.lock.json their wheels."""

SUITES = "suites"
"""The group of what the libraries' own tests need, which is no library to test; see suites/."""

UPDATE = "third_party/pypi/update.py tests/ecosystem/requirements/*.in"

# The packages that the TPU backend imports. torch's own requirements come from the main lock file.
_DEVICE = ("absl_py", "etils", "fsspec", "jax", "jaxlib", "numpy", "scipy", "setuptools")


def groups() -> list[str]:
    """Return the sorted names of the library groups."""
    return [path.stem for path in sorted(REQUIREMENTS.glob("*.in"))]


def libraries(group: str) -> list[str]:
    """Return the keys of the libraries in a group."""
    text = (REQUIREMENTS / f"{group}.in").read_text(encoding="utf-8")
    return [lock.requirement_key(line) for line in lock.requirement_lines(text)]


def version(key: str) -> str:
    """Return the locked version of a package. Raises KeyError if no lock file contains it."""
    return _rows()[key].version


def pip_lines(chosen: Collection[str]) -> list[str]:
    """Return pip requirements, with hashes, for torch, the TPU backend and the `chosen` groups."""
    rows = _rows()
    roots = [*_DEVICE, *_own().torch_requires]
    roots += [key for group in chosen for key in libraries(group)]
    keys = lock.reachable(rows, roots)
    pin = json.loads(lock.TORCH_PIN.read_text(encoding="utf-8"))
    torch = Package("torch", pin["version"], "", pin["wheel"]["sha256"], ())
    wheels = [torch, *(rows[key] for key in sorted(keys))]
    return [f"{row.distribution}=={row.version} --hash=sha256:{row.sha256}" for row in wheels]


def extra_index() -> str:
    """Return the URL of the package index that has torch's CPU build."""
    return str(json.loads(lock.TORCH_PIN.read_text(encoding="utf-8"))["wheel"]["extra_index"])


def problems() -> list[str]:
    """Return a line for each inconsistency among the groups' files and the main lock file."""
    found = []
    shared = _shared()
    versions = {key: row.version for value in shared for key, row in value.packages.items()}
    versions["torch"] = lock.torch_requirement(lock.TORCH_PIN.read_text()).partition("==")[2]
    rows = _rows()
    for name in groups():
        text = (REQUIREMENTS / f"{name}.in").read_text(encoding="utf-8")
        own = _lock(name)
        if own.inputs != lock.digest(lock.requirement_lines(text), []):
            found.append(f"{name}.in is not what {name}.lock.json was resolved from. Run {UPDATE}")
        found += [
            f"{name}.lock.json: resolved with {key} {other}, but the workspace has"
            f" {versions.get(key)}. Run {UPDATE}"
            for key, other in own.resolved_with.items()
            if versions.get(key) != other
        ]
        found += [
            f"{name}.lock.json: {key} requires {edge}, which no lock has. Run {UPDATE}"
            for key, row in own.packages.items()
            for edge in row.requires
            if edge not in rows and edge != "torch"
        ]
    return found


def _own() -> Lock:
    return lock.loads(lock.FILE.read_text(encoding="utf-8"))


def _shared() -> list[Lock]:
    others = [group for group in lock.groups() if group.name in lock.SHARED_GROUPS]
    return [_own(), *(lock.loads(group.file.read_text(encoding="utf-8")) for group in others)]


def _lock(group: str) -> Lock:
    return lock.loads((REQUIREMENTS / f"{group}.lock.json").read_text(encoding="utf-8"))


def _rows() -> dict[str, Package]:
    locks: Iterable[Lock] = [*_shared(), *map(_lock, groups())]
    return {key: row for value in locks for key, row in value.packages.items()}
