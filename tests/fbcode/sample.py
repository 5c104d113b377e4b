# SPDX-License-Identifier: Apache-2.0
"""Select a share of the entries in one of torch's tables, the same share on every machine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

# The variable FBCODE_SHARE: `2/16` selects the third of sixteen shares of every table, `0/1`
# selects everything. Its default depends on the suite.
VARIABLE = "FBCODE_SHARE"


class Entry(Protocol):
    """An entry of op_db, module_db or optim_db. All of them have a `name`."""

    @property
    def name(self) -> str: ...


E = TypeVar("E", bound=Entry)


def sampled(entries: Iterable[E], *, shares: int) -> list[E]:
    """Return a table's first of `shares` shares, or the share that the environment variable names.

    An entry's share depends only on its name, so adding entries does not move others. An empty
    share gets the table's first entry. Raises ValueError if the variable is not `INDEX/SHARES` with
    0 <= INDEX < SHARES.
    """
    table = list(entries)
    index, shares = _parse(os.environ.get(VARIABLE) or f"0/{shares}")
    share = [entry for entry in table if _number(entry) % shares == index]
    # A share must not be empty, because torch's decorators raise an error for an empty table.
    return share or table[:1]


def full_name(entry: Any) -> str:
    """Return an entry's name with its variant, as torch's test names contain it."""
    return str(getattr(entry, "full_name", entry.name))


def _number(entry: Entry) -> int:
    return int.from_bytes(hashlib.sha256(full_name(entry).encode()).digest()[:8], "big")


def _parse(share: str) -> tuple[int, int]:
    index, slash, shares = share.partition("/")
    if slash and index.isdecimal() and shares.isdecimal() and int(index) < int(shares):
        return int(index), int(shares)
    raise ValueError(f"{VARIABLE}: expected INDEX/SHARES as in 0/16, found '{share}'")
