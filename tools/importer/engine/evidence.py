# SPDX-License-Identifier: Apache-2.0
"""Explain why a hunk needed a three-way merge: show how upstream changed the hunk's old lines."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from tools.importer.engine.align import Change
from tools.importer.engine.text import Text
from tools.importer.unified import Hunk

# The maximum number of consecutive added lines that a diff shows. Without a limit, the diff of a
# hunk could contain a whole new file.
_MOST = 40


def upstream_diff(hunk: Hunk, ours: Text, upstream: Sequence[Change]) -> str:
    """Return the diff from the hunk's old lines to the lines that replace them in `ours`.

    `upstream` lists the changes from the hunk's base to `ours`, upstream's new text. The result is
    empty if upstream kept the lines, or moved them as one block.
    """
    assert ours.lines is not None
    start, stop = hunk.old_index, hunk.old_index + len(hunk.old)
    inside = [change for change in upstream if change.start < stop and start < change.stop]
    if not inside:
        return ""
    first, last = inside[0], inside[-1]
    # If a change begins before the hunk or ends after it, show all of the change's new lines.
    new_start = first.new_start - max(first.start - start, 0)
    new_stop = last.new_stop + max(stop - last.stop, 0)
    head = f"@@ -{_range(start, stop)} +{_range(new_start, new_stop)} @@ upstream's change\n"
    return head + "".join(_short(_diff(hunk.old, ours.lines[new_start:new_stop])))


def _diff(old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[str]:
    before, after = ([_text(line) for line in lines] for lines in (old, new))
    for tag, start, stop, low, high in difflib.SequenceMatcher(
        None, before, after, autojunk=False
    ).get_opcodes():
        if tag == "equal":
            yield from (f" {line}\n" for line in before[start:stop])
        else:
            yield from (f"-{line}\n" for line in before[start:stop])
            yield from (f"+{line}\n" for line in after[low:high])


def _short(lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines of a diff, and shorten each long run of added lines.

    Only the first lines of such a run are shown, followed by the number of omitted lines.
    """
    run = 0
    for line in lines:
        added = line.startswith("+")
        if run > _MOST and not added:
            yield f"+... and {run - _MOST} more lines\n"
        run = run + 1 if added else 0
        if run <= _MOST:
            yield line
    if run > _MOST:
        yield f"+... and {run - _MOST} more lines\n"


def _range(start: int, stop: int) -> str:
    """Return a range in a hunk header's format. An empty range gets the preceding line's number."""
    size = stop - start
    first = start + 1 if size else start
    return str(first) if size == 1 else f"{first},{size}"


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r\n")
