# SPDX-License-Identifier: Apache-2.0
"""Read the commit, the CUDA version and the requirements of a torch wheel for CUDA."""

from __future__ import annotations

import email
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


class WheelError(Exception):
    """Raised if the wheel cannot be pinned. The message gives the reason and the next step."""


@dataclass(frozen=True)
class WheelMetadata:
    """The metadata of a torch wheel. `requires` contains its Requires-Dist lines."""

    version: str
    commit: str
    cuda: str
    requires: tuple[str, ...]


def read(wheel: Path) -> WheelMetadata:
    """Read a wheel's metadata. Raises a WheelError if the wheel is not for CUDA."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (
            name
            for name in archive.namelist()
            if name.count("/") == 1 and name.endswith(".dist-info/METADATA")
        )
        metadata = email.message_from_bytes(archive.read(name))
        text = archive.read("torch/version.py").decode()
    cuda = _value(text, r"cuda(?:: Optional\[str\])?")
    if cuda is None:
        raise WheelError(f"{wheel.name}: its torch/version.py names no CUDA. Use another index")
    version, commit = _value(text, "__version__"), _value(text, "git_version")
    if version is None or commit is None:
        raise WheelError(f"{wheel.name}: its torch/version.py has no version or commit")
    return WheelMetadata(version, commit, cuda, tuple(metadata.get_all("Requires-Dist", [])))


def added_requirements(cuda: Iterable[str], cpu: Iterable[str]) -> tuple[str, ...]:
    """Return the requirements that only the CUDA wheel has, without environment markers.

    All known markers are true on Linux with CPython 3.11, the only platform of the locks. Raises a
    WheelError for any other marker.
    """
    lines = []
    for line in cuda:
        requirement, _, marker = (part.strip() for part in line.partition(";"))
        if line in cpu or "extra ==" in marker:
            continue
        for term in marker.split(" and ") if marker else ():
            if not re.fullmatch(r'platform_system == "Linux"|python_version < "3\.1[2-9]"', term):
                raise WheelError(f"'{line}': unknown marker '{term}'. Extend wheel_metadata.py")
        lines.append(requirement)
    return tuple(lines)


def _value(text: str, name: str) -> str | None:
    match = re.search(rf"^{name} = '([^']*)'$", text, re.MULTILINE)
    return match[1] if match else None
