# SPDX-License-Identifier: Apache-2.0
"""Select a shard of torch's test tables (op_db, module_db, optim_db), the same on every machine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

# The environment variable that selects a shard: `2/16` is the third of sixteen shards of every
# table, `0/1` is the whole table. Each suite has its own default.
VARIABLE = "FBCODE_SHARE"


class Entry(Protocol):
    """An entry of op_db, module_db or optim_db."""

    @property
    def name(self) -> str: ...


E = TypeVar("E", bound=Entry)


def sampled(entries: Iterable[E], *, shares: int) -> list[E]:
    """Return the shard of a table that FBCODE_SHARE selects, by default the first of `shares`.

    An entry's shard depends only on its name, so adding entries does not move the existing ones. If
    no entry falls into the shard, return the table's first entry alone. Raises a ValueError if
    FBCODE_SHARE is not `INDEX/COUNT` with 0 <= INDEX < COUNT.
    """
    table = list(entries)
    index, shares = _parse(os.environ.get(VARIABLE) or f"0/{shares}")
    share = [entry for entry in table if _number(entry) % shares == index]
    # torch's decorators raise an error if the list of entries is empty.
    return share or table[:1]


def full_name(entry: Any) -> str:
    """Return an entry's name including its variant, as it appears in torch's test names."""
    return str(getattr(entry, "full_name", entry.name))


def _number(entry: Entry) -> int:
    return int.from_bytes(hashlib.sha256(full_name(entry).encode()).digest()[:8], "big")


def _parse(share: str) -> tuple[int, int]:
    index, slash, shares = share.partition("/")
    if slash and index.isdecimal() and shares.isdecimal() and int(index) < int(shares):
        return int(index), int(shares)
    raise ValueError(f"{VARIABLE}: expected INDEX/SHARES as in 0/16, found '{share}'")
