# SPDX-License-Identifier: Apache-2.0
"""Write wheels reproducibly: the same contents always give the same bytes.

See packaging.python.org, "Binary distribution format" (version 1.0).
"""

from __future__ import annotations

import base64
import hashlib
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

# The earliest time that a zip file can store.
_TIME = (1980, 1, 1, 0, 0, 0)
_MODE = 0o644


class WheelError(Exception):
    """Raised if a file's path is not allowed in a wheel. The message is one line."""


def write(output: Path, *, tag: str, files: Mapping[str, bytes], info: str) -> None:
    """Write a wheel to `output` atomically.

    files: a map from paths in the wheel to contents.
    info: the wheel's NAME.dist-info directory, to which this function adds WHEEL and RECORD.
    """
    foreign = [path for path in files if path.startswith("/") or ".." in path.split("/")]
    if foreign:
        raise WheelError(
            f"{output.name}: '{foreign[0]}' is not a path in a wheel; use a relative path without '..'"
        )
    contents = dict(files)
    contents[f"{info}/WHEEL"] = _wheel(tag)
    record = f"{info}/RECORD"
    rows = [_row(path, content) for path, content in sorted(contents.items())]
    # The specification recommends that the metadata come last. RECORD is added after all other
    # files, because it contains their hashes.
    order = sorted(contents, key=lambda path: (path.startswith(f"{info}/"), path))
    partial = output.with_name(f"{output.name}.partial")
    try:
        with zipfile.ZipFile(partial, "w") as archive:
            for path in order:
                _add(archive, path, contents[path])
            _add(archive, record, "".join([*rows, f"{record},,\n"]).encode())
        os.replace(partial, output)
    finally:
        partial.unlink(missing_ok=True)


def _wheel(tag: str) -> bytes:
    pure = tag.endswith("-none-any")
    return (
        "Wheel-Version: 1.0\n"
        "Generator: torch_google\n"
        f"Root-Is-Purelib: {'true' if pure else 'false'}\n"
        f"Tag: {tag}\n"
    ).encode()


def _row(path: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}\n"


def _add(archive: zipfile.ZipFile, path: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(path, _TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3
    entry.external_attr = (0o100000 | _MODE) << 16
    archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
