# SPDX-License-Identifier: Apache-2.0
"""Select the upstream files that our tree contains, and map their paths.

`move` is applied first: `{"src/": ""}` maps `src/x/a.py` to `x/a.py`. The globs of `include` and
`exclude` then match our paths. So the same globs work for an sdist, which has a `src/` directory,
and for a wheel, which does not. `*` does not match slashes, but `**` does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tools.importer.errors import UserError
from tools.importer.snapshot import Blob, Snapshot


@dataclass(frozen=True)
class Selection:
    """A project's `include`, `exclude` and `move` keys. An empty `include` matches all files."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    move: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.include or self.exclude or self.move)

    def ours(self, path: str) -> str | None:
        """Return our path for upstream's `path`, or None if the file is not selected."""
        moved = self._moved(path)
        if self.include and not self._included.fullmatch(moved):
            return None
        return None if self._excluded.fullmatch(moved) else moved

    def upstreams(self, path: str) -> str:
        """Return upstream's path for one of our paths, even for a file that only a patch adds."""
        for old, new in sorted(self.move.items(), key=lambda row: (-len(row[1]), row)):
            if path.startswith(new) and self._moved(old + path[len(new) :]) == path:
                return old + path[len(new) :]
        return path

    def table(self, paths: Iterable[str], where: str) -> dict[str, str]:
        """Return a map from our paths to upstream's `paths`.

        Raises UserError if two of upstream's files would get the same path.
        """
        table: dict[str, str] = {}
        for path in paths:
            our_path = self.ours(path)
            if our_path is None:
                continue
            if our_path in table:
                raise UserError(
                    f"{where}: key 'move' puts both {table[our_path]} and {path} at {our_path}. Move"
                    " one of them elsewhere, or leave it out with 'exclude'"
                )
            table[our_path] = path
        return table

    def _moved(self, path: str) -> str:
        # The longest prefix wins, so the order of {"src/": "", "src/x/": "y/"} does not matter.
        for old in sorted(self.move, key=len, reverse=True):
            if path.startswith(old):
                return self.move[old] + path[len(old) :]
        return path

    @cached_property
    def _included(self) -> re.Pattern[str]:
        return _any_of(self.include)

    @cached_property
    def _excluded(self) -> re.Pattern[str]:
        return _any_of(self.exclude)


class SelectedSnapshot:
    """The selected files of the snapshot `below`, at our paths. `label` is the release's name."""

    def __init__(
        self, below: Snapshot, selection: Selection, *, label: str, natives: bool, where: str
    ) -> None:
        self.below = below
        self.label = label
        self.commit = below.commit
        self.pin = below.pin
        self.natives = natives
        self._selection = selection
        self._paths = selection.table(below.paths(), where)

    def paths(self) -> Collection[str]:
        return self._paths.keys()

    def read(self, path: str) -> Blob | None:
        upstreams = self._paths.get(path)
        return None if upstreams is None else self.below.read(upstreams)

    def ours(self, path: str) -> str | None:
        """Return our path for upstream's `path`, or None if the file is not selected."""
        return self._selection.ours(path)

    def upstreams(self, path: str) -> str:
        """Return upstream's path for one of our paths, even for a file that only a patch adds."""
        return self._paths.get(path) or self._selection.upstreams(path)

    def carries(self, path: str) -> bool:
        if path in self._paths:
            return True
        upstreams = self._selection.upstreams(path)
        return self._selection.ours(upstreams) == path and self.below.carries(upstreams)


def whole(snapshot: Snapshot) -> Snapshot:
    """Return the full snapshot that `snapshot` selects files from, or else `snapshot` itself."""
    return snapshot.below if isinstance(snapshot, SelectedSnapshot) else snapshot


def ours_in(snapshot: Snapshot, path: str) -> str | None:
    """Return our path for upstream's `path`, or None if `snapshot` does not select the file."""
    return snapshot.ours(path) if isinstance(snapshot, SelectedSnapshot) else path


def _any_of(globs: Iterable[str]) -> re.Pattern[str]:
    # (?!) never matches, so an empty list of globs matches no path.
    return re.compile("|".join(map(_expression, globs)) or r"(?!)", re.DOTALL)


def _expression(glob: str) -> str:
    parts = []
    for piece in re.split(r"(\*\*/?|\*|\?)", glob):
        if piece.startswith("**"):
            parts.append(r"(?:[^/]+/)*" if piece.endswith("/") else ".*")
        else:
            parts.append({"*": "[^/]*", "?": "[^/]"}.get(piece) or re.escape(piece))
    return "(?:" + "".join(parts) + ")"
