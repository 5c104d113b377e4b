# SPDX-License-Identifier: Apache-2.0
"""Unpacks a wheel into one directory, the same bytes and modes wherever it is done.

The layout is that of `pip install --target`: purelib, platlib and data files at the root, scripts
in bin/. Nothing is rewritten: no launchers, no shebangs, and RECORD stays as it was published.
"""

from __future__ import annotations

import os
import shutil
import stat
import zipfile
from pathlib import Path, PurePosixPath

# 1980-01-01, the first instant a zip file can hold: equal wheels give equal directories.
_TIMESTAMP = 315532800

# Where each part of NAME-VERSION.data/ goes. Headers have no place in this layout.
_DATA_PLACES = {"purelib": "", "platlib": "", "data": "", "scripts": "bin"}

# A file of such a name would make its directory a Bazel package, and globs would skip it.
_PACKAGE_MARKERS = frozenset(["BUILD", "BUILD.bazel"])


class UnpackError(Exception):
    """The wheel is not one that we can lay out; the message names the wheel and the entry."""


def unpack(wheel: Path, site: Path) -> None:
    """Unpacks `wheel` into the directory `site`, which must not exist yet."""
    scratch = site.with_name(site.name + ".partial")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        placed: dict[str, str] = {}
        for entry in sorted(archive.infolist(), key=lambda entry: entry.filename):
            if entry.is_dir():
                continue
            place = _place(wheel.name, entry.filename)
            if place in placed:
                raise UnpackError(
                    f"{wheel.name}: '{entry.filename}' and '{placed[place]}' both unpack to"
                    f" '{place}'. Use another version of the package."
                )
            placed[place] = entry.filename
            _extract(archive, entry, scratch / place)
    os.replace(scratch, site)


def _place(wheel: str, name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise UnpackError(f"{wheel}: entry '{name}' is outside the wheel. Do not use this wheel.")
    if path.name in _PACKAGE_MARKERS:
        raise UnpackError(
            f"{wheel}: entry '{name}' would make a Bazel package of its directory and hide it from"
            " globs. Add a rule for it to third_party/pypi/unpack_wheel.py."
        )
    top = path.parts[0]
    if not top.endswith(".data") or len(path.parts) < 3:
        return str(path)
    part = path.parts[1]
    if part not in _DATA_PLACES:
        raise UnpackError(
            f"{wheel}: entry '{name}' is of the kind '{part}', known are"
            f" {', '.join(sorted(_DATA_PLACES))}. Add it to third_party/pypi/unpack_wheel.py."
        )
    return str(PurePosixPath(_DATA_PLACES[part], *path.parts[2:]))


def _extract(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(entry) as source, target.open("xb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
    is_script = entry.filename.split("/")[1:2] == ["scripts"] and ".data/" in entry.filename
    executable = is_script or entry.external_attr >> 16 & stat.S_IXUSR
    target.chmod(0o755 if executable else 0o644)
    os.utime(target, (_TIMESTAMP, _TIMESTAMP))
