# SPDX-License-Identifier: Apache-2.0
"""The recorded base of a series: what its patches were made against, as proof instead of as copies.

`base.json` beside the series names the upstream commit and the git id of every file that the series
touches; `base.lines` has a 6-byte mark of each of their lines. A merge only asks whether lines are
the same, and every line that it writes stands in the patch or in the new tree, so marks do for the
old one: a carry needs no old download, and no upstream text is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Mark = bytes


@dataclass(frozen=True)
class BaseFile:
    """One upstream file: its git mode, its blob id and the marks of its lines in order."""

    mode: str
    oid: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class Base:
    """Upstream as the series knows it. `known` has a short mark of every path of that tree."""

    label: str
    commit: str | None
    pin: Mapping[str, object]
    files: Mapping[str, BaseFile]
    known: frozenset[bytes]
