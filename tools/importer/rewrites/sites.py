# SPDX-License-Identifier: Apache-2.0
"""Find the calls in a source file that read a path derived from `__file__`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tools.importer.rewrites.flow import Flow
from tools.importer.rewrites.module import last_name

_NEWLINE = re.compile(rb"\r\n|\r|\n")
_WRITES = frozenset("wax+")


@dataclass(frozen=True)
class Site:
    """The position, callee and text of a call. `start` and `end` are byte offsets in the file.

    `column` counts bytes within the line, as in `ast`. A site holds no reference to an `ast` node,
    because that would keep the entire syntax tree in memory.
    """

    path: str
    line: int
    function: str
    callee: str
    start: int
    end: int
    text: str
    column: int = field(repr=False)

    def __str__(self) -> str:
        text = " ".join(self.text.split())
        return f"{self.path}:{self.line}: {text[:70]}{'...' if len(text) > 70 else ''}"


def sites_in(flow: Flow, data: bytes) -> tuple[Site, ...]:
    """Return the calls whose first argument or receiver is a path derived from `__file__`.

    Calls that write are excluded, because writing next to the sources is wrong even outside a PAR,
    a single-file Python program.
    """
    module = flow.module
    calls = {call for node in flow.marks for call in _on(flow, node) if not _writes(call)}
    starts = line_starts(data) if calls else []
    sites = []
    for call in calls:
        start = starts[call.lineno - 1] + call.col_offset
        end = starts[(call.end_lineno or 0) - 1] + (call.end_col_offset or 0)
        text = data[start:end].decode("utf-8")
        where, name = module.function_of(call), last_name(call.func)
        fields = (module.path, call.lineno, where, name, start, end, text, call.col_offset)
        sites.append(Site(*fields))
    return tuple(sorted(sites, key=lambda site: (site.start, site.end)))


def line_starts(data: bytes) -> list[int]:
    """Return the byte offset of each line, as Python counts lines. Line 1 starts after any BOM."""
    mark = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    return [mark, *(newline.end() for newline in _NEWLINE.finditer(data))]


def _on(flow: Flow, node: ast.AST) -> Iterator[ast.Call]:
    """Yield the call, if any, whose first argument or method receiver is `node`."""
    parent = flow.module.parents.get(node)
    match parent:
        case ast.Call(args=[first, *_]) if first is node:
            yield parent
        case ast.keyword():
            call = flow.module.parents[parent]
            if isinstance(call, ast.Call) and call.keywords[0] is parent:
                yield call
        case ast.Attribute():
            call = flow.module.parents[parent]
            if isinstance(call, ast.Call) and call.func is parent:
                yield call


def _writes(call: ast.Call) -> bool:
    texts = [*call.args, *(each.value for each in call.keywords if each.arg == "mode")]
    return any(
        isinstance(each, ast.Constant)
        and isinstance(each.value, str)
        and 0 < len(each.value) <= 3
        and bool(_WRITES & set(each.value))
        and set(each.value) <= set("rwaxbt+")
        for each in texts
    )
