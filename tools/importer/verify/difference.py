# SPDX-License-Identifier: Apache-2.0
"""Compare two trees path by path, and list their differences."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from tools.importer.tree import Entry


class Kind(enum.Enum):
    """The kind of difference at one path."""

    CHANGED = "changed"
    MODE = "mode"
    MISSING = "missing"
    EXTRA = "extra"
    DAMAGED = "damaged"  # the file's bytes cannot be read


@dataclass(frozen=True)
class Difference:
    """A path that differs. `where` names the pin, wheel, base or tree that contains it."""

    where: str
    kind: Kind
    path: str
    note: str = ""

    def __str__(self) -> str:
        note = f": {self.note}" if self.note else ""
        return f"{self.where}: {self.kind.value} {self.path}{note}"

    def as_json(self) -> dict[str, str]:
        return {
            "where": self.where,
            "kind": self.kind.value,
            "path": self.path,
            "note": self.note,
        }


def compare(
    where: str, want: Mapping[str, Entry], entries: Mapping[str, Entry]
) -> list[Difference]:
    """Return the differences between `entries` and `want`, sorted by path.

    A path whose bytes and mode both differ is listed twice. Both trees must use the same kind of
    digest: sha256, or git's blob ids.
    """
    differences: list[Difference] = []
    for path in sorted(want.keys() | entries.keys()):
        expected, actual = want.get(path), entries.get(path)
        if actual is None:
            differences.append(Difference(where, Kind.MISSING, path))
        elif expected is None:
            differences.append(Difference(where, Kind.EXTRA, path))
        else:
            if actual.digest != expected.digest:
                note = f"{_short(actual.digest)}, wants {_short(expected.digest)}"
                differences.append(Difference(where, Kind.CHANGED, path, note))
            if actual.mode != expected.mode:
                note = f"{actual.mode}, wants {expected.mode}"
                differences.append(Difference(where, Kind.MODE, path, note))
    return differences


def _short(digest: str) -> str:
    return digest[:16]
