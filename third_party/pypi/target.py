# SPDX-License-Identifier: Apache-2.0
"""The platform that all wheels must support: CPython 3.11 on Linux x86-64 with glibc 2.28."""

from __future__ import annotations

import re
from collections.abc import Iterable

DESCRIPTION = "CPython 3.11 on Linux x86-64"
PYTHON = (3, 11)
ABI = "cp311"

_GLIBC_MINORS = range(28, 4, -1)
_LEGACY = ("manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64")

# The platform tags, newest first, because pip prefers tags that come earlier.
PLATFORMS = (*(f"manylinux_2_{minor}_x86_64" for minor in _GLIBC_MINORS), *_LEGACY)

# Packages that publish wheels only with platform tags newer than PLATFORMS. libtpu needs no symbol
# newer than GLIBC_2.27, so it works despite its tag.
_NEWER = {"libtpu": ("manylinux_2_31_x86_64",)}


def platforms(filename: str) -> tuple[str, ...] | None:
    """Return the tags in a wheel's file name that match the target, or None if none do."""
    parts = filename.removesuffix(".whl").split("-")
    if not filename.endswith(".whl") or len(parts) not in (5, 6):
        return None
    pythons, abis, tags = (part.split(".") for part in parts[-3:])
    good_python = any(_python_serves(python, abis) for python in pythons)
    allowed = ("any", *PLATFORMS, *_NEWER.get(parts[0], ()))
    good_tags = tuple(tag for tag in tags if tag in allowed)
    return good_tags if good_python and good_tags else None


def platforms_for(requirements: Iterable[str]) -> tuple[str, ...]:
    """Return the platform tags that wheels for these requirements may have."""
    names = {re.split(r"[^\w.-]", requirement, maxsplit=1)[0] for requirement in requirements}
    newer = (tag for name, tags in _NEWER.items() if name in names for tag in tags)
    return (*PLATFORMS, *newer)


def pip_options(tags: tuple[str, ...] = PLATFORMS) -> list[str]:
    """Return options that make pip choose wheels for the target instead of the host."""
    return [
        "--implementation=cp",
        f"--python-version={PYTHON[0]}.{PYTHON[1]}",
        f"--abi={ABI}",
        *(f"--platform={tag}" for tag in tags),
    ]


def _python_serves(python: str, abis: list[str]) -> bool:
    if python == ABI:
        return bool({ABI, "abi3", "none"} & set(abis))
    if python in ("py3", "py311"):
        return "none" in abis
    older = re.fullmatch(r"cp3(\d+)", python)
    return bool(older and int(older[1]) < PYTHON[1] and "abi3" in abis)
