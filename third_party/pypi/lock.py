# SPDX-License-Identifier: Apache-2.0
"""Read and write lock files, which contain the hash of every wheel and the wheels' dependencies.

The keys in a lock are normalized names such as `absl_py`, which are also Bazel package names.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

FILE = Path(__file__).parent / "lock.json"
REQUIREMENTS = Path(__file__).parent / "requirements.in"
ANNOTATIONS = Path(__file__).parent / "annotations.json"
TORCH_PIN = Path(__file__).parents[1] / "torch" / "pin.json"
# The groups that other workspaces can use. MODULE.bazel marks all other groups as dev_dependency.
SHARED_GROUPS = ("cloud", "torch_cuda")
_GROUPS = Path(__file__).parent / "groups"


@dataclass(frozen=True)
class Group:
    """Requirements that only a few targets need, with a separate lock for their wheels."""

    requirements: Path

    @property
    def name(self) -> str:
        return self.requirements.stem

    @property
    def file(self) -> Path:
        """The path of the group's lock, which contains only wheels missing from the main lock."""
        return self.requirements.with_suffix(".lock.json")


@dataclass(frozen=True)
class Package:
    """A wheel in a lock. `requires` lists the keys of the packages that it depends on."""

    distribution: str
    version: str
    filename: str
    sha256: str
    requires: tuple[str, ...]


@dataclass(frozen=True)
class Lock:
    """The contents of a lock file. A lock does not list torch itself.

    `inputs` is the `digest` of the inputs that the lock was resolved from. `requirements` are the
    lines of the input file, and `torch_needs` the Requires-Dist lines of torch's wheel. Both are
    stored so that an update queries pip only for new lines and does not have to fetch torch.

    `resolved_with` is only in locks of other workspaces. It contains the versions of torch, and of
    packages in other locks, with which pip resolved the lock. Bazel rejects the lock if the build
    has different versions.
    """

    inputs: str
    torch_requires: tuple[str, ...]
    packages: Mapping[str, Package]
    requirements: tuple[str, ...] = ()
    torch_needs: tuple[str, ...] = ()
    resolved_with: Mapping[str, str] = field(default_factory=dict)

    def dumps(self) -> str:
        """Return the lock's text in canonical form, so that equal locks have equal texts."""
        packages = {
            key: {**asdict(package), "requires": sorted(package.requires)}
            for key, package in self.packages.items()
        }
        document: dict[str, object] = {
            "inputs": self.inputs,
            "packages": packages,
            "requirements": sorted(self.requirements),
            "torch_needs": list(self.torch_needs),
            "torch_requires": sorted(self.torch_requires),
        }
        if self.resolved_with:
            document["resolved_with"] = dict(self.resolved_with)
        return json.dumps(document, indent=2, sort_keys=True) + "\n"


def loads(text: str) -> Lock:
    """Parse the text that `Lock.dumps` returned."""
    document = json.loads(text)
    packages = {
        key: Package(**{**row, "requires": tuple(row["requires"])})
        for key, row in document["packages"].items()
    }
    return Lock(
        inputs=document["inputs"],
        torch_requires=tuple(document["torch_requires"]),
        packages=packages,
        requirements=tuple(document["requirements"]),
        torch_needs=tuple(document["torch_needs"]),
        resolved_with=document.get("resolved_with", {}),
    )


def groups() -> list[Group]:
    """Return all groups, sorted by name."""
    return [Group(path) for path in sorted(_GROUPS.glob("*.in"))]


def normalize(name: str) -> str:
    """Return the key for a distribution's name, which is the same for all spellings."""
    return re.sub(r"[-_.]+", "_", name).lower()


def requirement_lines(text: str) -> list[str]:
    """Return the lines of a requirements file, without comments and blank lines."""
    lines = (line.split("#", 1)[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def requirement_key(line: str) -> str:
    """Return the key of the package that a requirement line names."""
    return normalize(re.split(r"[^\w.-]", line, maxsplit=1)[0])


def torch_requirement(pin: str) -> str:
    """Return `torch==VERSION` from the text of third_party/torch/pin.json."""
    filename: str = json.loads(pin)["wheel"]["filename"]
    distribution, version = filename.split("-")[:2]
    return f"{distribution}=={version}"


def data_only(annotations: str) -> frozenset[str]:
    """Return the keys of packages locked without dependencies: only their data files are used."""
    rows = json.loads(annotations)
    return frozenset(key for key, row in rows.items() if row.get("data_only"))


def digest(lines: Iterable[str], without_needs: Iterable[str]) -> str:
    """Return a hash of a lock's inputs: its requirements and the keys of data-only packages."""
    document = {"requirements": sorted(lines), "data_only": sorted(without_needs)}
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def unreachable(lock: Lock, roots: Iterable[str]) -> set[str]:
    """Return the keys of packages in the lock that neither `roots` nor torch requires."""
    return set(lock.packages) - reachable(lock.packages, [*roots, *lock.torch_requires])


def reachable(packages: Mapping[str, Package], roots: Iterable[str]) -> set[str]:
    """Return `roots` and the keys of all packages that they require, directly or indirectly."""
    seen: set[str] = set()
    todo = list(roots)
    while todo:
        key = todo.pop()
        if key in packages and key not in seen:
            seen.add(key)
            todo.extend(packages[key].requires)
    return seen
