# SPDX-License-Identifier: Apache-2.0
"""Six-byte hashes of lines (marks), for comparisons that need only equality.

In a file of 10,000 lines, the probability that any two different lines have the same hash is 1 in 5
million.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

MARK_BYTES = 6
Mark = bytes


def mark_of(line: bytes) -> Mark:
    """Return the hash of one line, including its line ending."""
    return hashlib.blake2b(line, digest_size=MARK_BYTES).digest()


def marks_of(lines: Iterable[bytes]) -> tuple[Mark, ...]:
    """Return the hashes of `lines`, in order."""
    if len(_KNOWN) > _MOST_KNOWN:
        _KNOWN.clear()
    return tuple(map(_KNOWN.__getitem__, lines))


class _Marks(dict[bytes, Mark]):
    """A cache of line hashes. Without it, each patch to a file would hash all lines of the file."""

    def __missing__(self, line: bytes) -> Mark:
        mark = self[line] = mark_of(line)
        return mark


_KNOWN = _Marks()
_MOST_KNOWN = 500_000


def path_mark(path: str) -> bytes:
    """Return a four-byte hash of a path.

    For a tree of 13,000 paths, the probability that a new path has the same hash as one of them is
    1 in 300,000.
    """
    return hashlib.blake2b(path.encode("utf-8", "surrogateescape"), digest_size=4).digest()
