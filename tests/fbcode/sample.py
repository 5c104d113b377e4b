# SPDX-License-Identifier: Apache-2.0
"""Select the same shard of torch's test tables (op_db, module_db, optim_db) on every machine."""

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


def sampled(entries: Iterable[E], *, shards: int) -> list[E]:
    """Return the shard of a table that FBCODE_SHARE selects, by default the first of `shards`.

    An entry's shard depends only on its name, so adding entries does not move the existing ones. If
    no entry falls into the shard, return the table's first entry alone. Raises a ValueError if
    FBCODE_SHARE is not `INDEX/SHARDS` with 0 <= INDEX < SHARDS.
    """
    table = list(entries)
    index, shards = _parse(os.environ.get(VARIABLE) or f"0/{shards}")
    shard = [entry for entry in table if _number(entry) % shards == index]
    # torch's decorators raise an error if the list of entries is empty.
    return shard or table[:1]


def full_name(entry: Any) -> str:
    """Return an entry's name including its variant, as it appears in torch's test names."""
    return str(getattr(entry, "full_name", entry.name))


def _number(entry: Entry) -> int:
    return int.from_bytes(hashlib.sha256(full_name(entry).encode()).digest()[:8], "big")


def _parse(shard: str) -> tuple[int, int]:
    index, slash, shards = shard.partition("/")
    if slash and index.isdecimal() and shards.isdecimal() and int(index) < int(shards):
        return int(index), int(shards)
    raise ValueError(f"{VARIABLE}: expected INDEX/SHARDS as in 0/16, found '{shard}'")
