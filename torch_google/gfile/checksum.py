# SPDX-License-Identifier: Apache-2.0
"""A file's checksum in a file beside it, as `sha256sum -c` reads it: `NAME.sha256` for `NAME`.

While a file is being replaced its checksum lists both contents, so that whoever is killed at any moment
leaves a file that verifies.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Callable
from typing import IO

from torch_google.gfile.failures import ChecksumError

ALGORITHMS = ("blake2b", "sha256", "sha512")


def check_algorithm(name: str) -> None:
    """Raise ValueError unless a checksum of that name can be asked for."""
    if name not in ALGORITHMS:
        raise ValueError(f"checksum '{name}': there are {', '.join(ALGORITHMS)}; ask for one")


def digest(file: IO[bytes], algorithm: str) -> str:
    """Return the checksum of what is left of a file, read piece by piece."""
    state = hashlib.new(algorithm)
    while piece := file.read(1 << 20):
        state.update(piece)
    return state.hexdigest()


def verify(name: str, found: str, listed: str, algorithm: str) -> None:
    """Raise ChecksumError unless `found` is among the checksums that a file of them lists."""
    wanted = _digests(listed)
    if found not in wanted:
        raise ChecksumError(
            errno.EIO,
            f"its {algorithm} is {found}, and {' or '.join(wanted) or 'none'} is listed beside it; "
            "restore the file, or write it anew",
            name,
        )


def replace(
    commit: Callable[[], None],
    name: str,
    made: str,
    listed: str | None,
    write: Callable[[str], None],
) -> None:
    """Commit a file with its checksum `made`; `listed` is what is listed for the one before it."""
    older = [line for line in _digests(listed or "") if line != made]
    write("".join(f"{each}  {name}\n" for each in [*older, made]))
    commit()
    if older:
        write(f"{made}  {name}\n")


def _digests(listed: str) -> list[str]:
    return [*dict.fromkeys(line.split()[0] for line in listed.splitlines() if line.strip())]
