# SPDX-License-Identifier: Apache-2.0
"""Convert pip's installation report to lock file entries, one for each wheel.

pip chooses the versions. This module computes which packages depend on which, for the target
platform and the extras in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

try:
    from packaging.requirements import Requirement
except ImportError:  # The host's python3 lacks packaging, but pip vendors a copy.
    from pip._vendor.packaging.requirements import Requirement

from third_party.pypi.lock import Package, normalize

_ENVIRONMENT = {
    "implementation_name": "cpython",
    "implementation_version": "3.11.0",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "python_full_version": "3.11.0",
    "python_version": "3.11",
    "sys_platform": "linux",
}

Report = Mapping[str, Any]


def packages(report: Report, lines: Sequence[str]) -> dict[str, Package]:
    """Return the lock file entries of the packages that pip chose for the requirements `lines`."""
    chosen = {normalize(item["metadata"]["name"]): item for item in report["install"]}
    needs = {key: item["metadata"].get("requires_dist", []) for key, item in chosen.items()}
    edges = requires(needs, lines)
    return {
        key: Package(
            distribution=item["metadata"]["name"],
            version=item["metadata"]["version"],
            filename=unquote(urlsplit(item["download_info"]["url"]).path.rsplit("/", 1)[1]),
            sha256=_sha256(item["download_info"]["archive_info"]),
            requires=tuple(sorted(edges[key])),
        )
        for key, item in chosen.items()
    }


def requires(needs: Mapping[str, Iterable[str]], lines: Sequence[str]) -> dict[str, set[str]]:
    """Map the key of each package to the keys of the packages that it requires.

    `needs` maps the key of each package to its Requires-Dist lines. `lines` are the root
    requirements.
    """
    edges: dict[str, set[str]] = {key: set() for key in needs}
    seen: set[tuple[str, str]] = set()
    todo = [node for line in lines for node in _nodes(Requirement(line))]
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        key, extra = node
        for requirement in map(Requirement, needs[key]):
            marker = requirement.marker
            if marker and not marker.evaluate({**_ENVIRONMENT, "extra": extra}):
                continue
            todo.extend(_nodes(requirement))
            edges[key].add(normalize(requirement.name))
    for key, targets in edges.items():
        targets.discard(key)  # A package's extra may name another of its extras.
    return edges


def admits(line: str, version: str) -> bool:
    """Return whether a requirement line allows a version."""
    return Requirement(line).specifier.contains(version, prereleases=True)


def _sha256(archive: Mapping[str, Any]) -> str:
    # Reports from pip versions before 23.1 have only the old field "hash": "sha256=...".
    hashes: Mapping[str, str] = archive.get("hashes") or dict([archive["hash"].split("=", 1)])
    return hashes["sha256"]


def _nodes(requirement: Requirement) -> list[tuple[str, str]]:
    key = normalize(requirement.name)
    return [(key, extra) for extra in ("", *sorted(requirement.extras))]
