# SPDX-License-Identifier: Apache-2.0
"""Checksum files: `NAME.sha256` contains the checksum of `NAME`, in the format of `sha256sum -c`.

While a file is being replaced, its checksum file lists the checksums of the old and the new
content. So the file can be verified even if its writer is killed at any moment.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable
from typing import IO

from torch_google.gfile.failures import ChecksumError

ALGORITHMS = ("blake2b", "sha256", "sha512")


def check_algorithm(name: str) -> None:
    """Raise ValueError for an unsupported algorithm."""
    if name not in ALGORITHMS:
        raise ValueError(
            f"checksum '{name}': unknown algorithm; use one of {', '.join(ALGORITHMS)}"
        )


def digest(file: IO[bytes], algorithm: str) -> str:
    """Return the checksum of a file from its current position to its end."""
    state = hashlib.new(algorithm)
    while piece := file.read(1 << 20):
        state.update(piece)
    return state.hexdigest()


def verify(name: str, actual: str, listed: str, algorithm: str) -> None:
    """Raise ChecksumError unless `listed`, the checksum file's text, contains `actual`."""
    expected = _digests(listed)
    if actual not in expected:
        raise ChecksumError(
            errno.EIO,
            f"its {algorithm} is {actual}, and {' or '.join(expected) or 'none'} is listed; "
            "restore the file, or write it again",
            name,
        )


def replace(
    commit: Callable[[], None],
    name: str,
    new: str,
    listed: str | None,
    write: Callable[[str], None],
) -> None:
    """Commit a file and its checksum `new`. `listed` is the text of the old checksum file."""
    old = [line for line in _digests(listed or "") if line != new]
    write("".join(f"{each}  {name}\n" for each in [*old, new]))
    commit()
    if old:
        write(f"{new}  {name}\n")


def _digests(listed: str) -> list[str]:
    return [*dict.fromkeys(line.split()[0] for line in listed.splitlines() if line.strip())]
