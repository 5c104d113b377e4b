# SPDX-License-Identifier: Apache-2.0
"""Write a distribution's METADATA and entry_points.txt in the standard formats.

See packaging.python.org, "Core metadata specifications" (version 2.4) and "Entry points".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class MetadataError(Exception):
    """Raised if a distribution's description is invalid. The message is one line."""


@dataclass(frozen=True)
class Distribution:
    """A distribution's metadata.

    exact: packages to require at exactly their locked versions.
    requires: additional requirements, copied to METADATA unchanged.
    """

    name: str
    version: str
    summary: str
    licence: str
    python: str
    exact: tuple[str, ...]
    requires: tuple[str, ...]
    entry_points: Mapping[str, Mapping[str, str]]


def described(description: Mapping[str, Any]) -> Distribution:
    """Convert the wheel rule's description, already parsed from JSON, to a Distribution."""
    groups: dict[str, dict[str, str]] = {}
    for line in description["entry_points"]:
        match = re.fullmatch(r"([\w.]+): *([\w.-]+) *= *([\w.]+(?::[\w.]+)?)", line)
        if match is None:
            raise MetadataError(
                f"entry_points: found '{line}'; write 'group: name = module:function'"
            )
        groups.setdefault(match[1], {})[match[2]] = match[3]
    return Distribution(
        description["name"],
        description["version"],
        description["summary"],
        description["licence"],
        description["python"],
        tuple(description["exact"]),
        tuple(description["requires"]),
        groups,
    )


def locked(lock: Mapping[str, Any], torch_pin: Mapping[str, Any]) -> dict[str, str]:
    """Return a map from normalized package names to the versions that the workspace pins.

    Local version labels are removed: torch is pinned to a "+cpu" version, but its other builds work
    equally well.
    """
    versions = {name: package["version"] for name, package in lock["packages"].items()}
    versions["torch"] = torch_pin["version"]
    return {name: version.partition("+")[0] for name, version in versions.items()}


def metadata(distribution: Distribution, versions: Mapping[str, str]) -> str:
    """Return the text of METADATA. Raises MetadataError if a package in `exact` is not locked."""
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {distribution.name}",
        f"Version: {distribution.version}",
        f"Summary: {distribution.summary}",
        f"License-Expression: {distribution.licence}",
        "License-File: LICENSE",
        f"Requires-Python: {distribution.python}",
    ]
    needs = list(distribution.requires)
    for name in distribution.exact:
        key = re.sub(r"[-_.]+", "_", name).lower()
        if key not in versions:
            raise MetadataError(
                f"exact: '{name}' is not locked; add it to third_party/pypi/requirements.in, or "
                "name it in requires"
            )
        needs.append(f"{name}=={versions[key]}")
    lines += [f"Requires-Dist: {need}" for need in sorted(needs)]
    return "\n".join(lines) + "\n"


def entry_points(distribution: Distribution) -> str:
    """Return the contents of entry_points.txt."""
    sections = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in sorted(named.items()))
        for group, named in sorted(distribution.entry_points.items())
    ]
    return "\n".join(sections)
