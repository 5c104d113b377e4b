# SPDX-License-Identifier: Apache-2.0
"""Check patch series with the importer's own parser, so that the rules are defined only once."""

from __future__ import annotations

import collections.abc
import datetime
import re

from tools.importer import Patch, SeriesError, load_series, overdue
from tools.presubmit import finding, tree

_INDEX = "series"
_MESSAGE = re.compile(r"(?P<path>[^:]+)(?::(?P<line>\d+))?: (?P<what>.+?)\. (?P<next_step>.+)")


def find(
    files: tree.Tree, *, today: datetime.date | None = None
) -> collections.abc.Iterator[finding.Finding]:
    """Yield findings for invalid series, expired patches, and patches in folders with no series."""
    today = today or datetime.datetime.now(datetime.UTC).date()
    folders = {path.rpartition("/")[0] for path in files.paths if _is(path, _INDEX)}
    for folder in sorted(folders):
        try:
            loaded = load_series(files.root / folder)
        except SeriesError as error:
            yield _finding(str(error).replace(f"{files.root}/", ""), f"{folder}/{_INDEX}")
        else:
            for patch in overdue(loaded, today):
                yield _expired(files, f"{folder}/{patch.name}", patch)
    for path in files.paths:
        if path.endswith(".patch") and path.rpartition("/")[0] not in folders:
            yield finding.Finding(
                path=path,
                what=f"no '{_INDEX}' file in its folder gives its place in the order",
                next_step="move it into patches/<project>/<tag> and list it there",
            )


def _is(path: str, name: str) -> bool:
    return path == name or path.endswith(f"/{name}")


def _expired(files: tree.Tree, path: str, patch: Patch) -> finding.Finding:
    lines = enumerate(files.lines(path), start=1)
    return finding.Finding(
        path=path,
        line=next((number for number, line in lines if line.startswith("Expires:")), 1),
        what=f"the patch expired on {patch.expires}",
        next_step="drop it, or say in its header until when it is needed and why",
    )


def _finding(message: str, index: str) -> finding.Finding:
    match = _MESSAGE.fullmatch(message)
    if match is None:
        return finding.Finding(path=index, what=message, next_step="correct the series")
    return finding.Finding(
        path=match["path"],
        line=int(match["line"] or 1),
        what=match["what"],
        next_step=match["next_step"],
    )
