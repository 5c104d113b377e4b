# SPDX-License-Identifier: Apache-2.0
"""Unpack a wheel into a directory, with the same result on every machine.

The layout is that of `pip install --target`: purelib, platlib and data files are at the root, and
scripts are in bin/. Unlike pip, this module writes no launchers and changes neither shebangs nor
RECORD.
"""

from __future__ import annotations

import os
import shutil
import stat
import zipfile
from pathlib import Path, PurePosixPath

# 1980-01-01, the earliest time that a zip file can store. All files get this timestamp, so that
# unpacking is reproducible.
_TIMESTAMP = 315532800

# The target directory for each folder of NAME-VERSION.data/. `headers` is not supported.
_DATA_DIRECTORIES = {"purelib": "", "platlib": "", "data": "", "scripts": "bin"}

# A file with one of these names makes its directory a Bazel package, which globs skip.
_PACKAGE_MARKERS = frozenset(["BUILD", "BUILD.bazel"])


class UnpackError(Exception):
    """Raised if the layout does not support an entry of the wheel. The message names the entry."""


def unpack(wheel: Path, site: Path) -> None:
    """Unpack `wheel` into `site`, a directory that must not exist yet."""
    scratch = site.with_name(site.name + ".partial")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    with zipfile.ZipFile(wheel) as archive:
        entries_by_target: dict[str, str] = {}
        for entry in sorted(archive.infolist(), key=lambda entry: entry.filename):
            if entry.is_dir():
                continue
            target = _target_path(wheel.name, entry.filename)
            if target in entries_by_target:
                raise UnpackError(
                    f"{wheel.name}: '{entry.filename}' and '{entries_by_target[target]}' both unpack"
                    f" to '{target}'. Use another version of the package."
                )
            entries_by_target[target] = entry.filename
            _extract(archive, entry, scratch / target)
    os.replace(scratch, site)


def _target_path(wheel: str, name: str) -> str:
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
    if part not in _DATA_DIRECTORIES:
        raise UnpackError(
            f"{wheel}: entry '{name}' is of the kind '{part}'; the known kinds are"
            f" {', '.join(sorted(_DATA_DIRECTORIES))}. Add it to third_party/pypi/unpack_wheel.py."
        )
    return str(PurePosixPath(_DATA_DIRECTORIES[part], *path.parts[2:]))


def _extract(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(entry) as source, target.open("xb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
    is_script = entry.filename.split("/")[1:2] == ["scripts"] and ".data/" in entry.filename
    executable = is_script or entry.external_attr >> 16 & stat.S_IXUSR
    target.chmod(0o755 if executable else 0o644)
    os.utime(target, (_TIMESTAMP, _TIMESTAMP))
