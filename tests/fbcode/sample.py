# SPDX-License-Identifier: Apache-2.0
"""Which entries of one of torch's tables a run takes: a share that is the same on every machine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

# `2/16` takes the third of sixteen shares of every table, `0/1` all; without it each suite has its
# own.
VARIABLE = "FBCODE_SHARE"


class Entry(Protocol):
    """An entry of op_db, module_db or optim_db: all of them name themselves by attributes."""

    @property
    def name(self) -> str: ...


E = TypeVar("E", bound=Entry)


def sampled(entries: Iterable[E], *, shares: int) -> list[E]:
    """Return the first of `shares` shares of a table, or the share that the environment asks for.

    An entry's share depends on nothing but its name, so a release that adds some moves no other. A
    share that has none gets the table's first.
    Raises ValueError when the variable is not `INDEX/SHARES`, 0 <= INDEX < SHARES.
    """
    table = list(entries)
    index, shares = _asked(os.environ.get(VARIABLE) or f"0/{shares}")
    found = [entry for entry in table if _number(entry) % shares == index]
    # torch's decorators refuse to make no test at all.
    return found or table[:1]


def full_name(entry: Any) -> str:
    """Return an entry's name with that of its variant, as torch's tests have it."""
    return str(getattr(entry, "full_name", entry.name))


def _number(entry: Entry) -> int:
    return int.from_bytes(hashlib.sha256(full_name(entry).encode()).digest()[:8], "big")


def _asked(words: str) -> tuple[int, int]:
    index, slash, shares = words.partition("/")
    if slash and index.isdecimal() and shares.isdecimal() and int(index) < int(shares):
        return int(index), int(shares)
    raise ValueError(f"{VARIABLE}: expected INDEX/SHARES as in 0/16, found '{words}'")
