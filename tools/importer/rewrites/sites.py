# SPDX-License-Identifier: Apache-2.0
"""Single calls in a file: which read a path from `__file__`, and which bytes they are."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from dataclasses import dataclass, field

from tools.importer.rewrites.flow import Flow

_NEWLINE = re.compile(rb"\r\n|\r|\n")
_WRITES = frozenset("wax+")


@dataclass(frozen=True)
class Site:
    """One call: its place, what it calls, and its bytes (from `start` up to `end` of the file)."""

    path: str
    line: int
    function: str
    callee: str
    start: int
    end: int
    text: str
    node: ast.Call = field(compare=False, repr=False)

    def __str__(self) -> str:
        text = " ".join(self.text.split())
        return f"{self.path}:{self.line}: {text[:70]}{'...' if len(text) > 70 else ''}"


def sites_in(flow: Flow, data: bytes, callees: Collection[str]) -> list[Site]:
    """Return the calls of `callees` whose first argument, or what is before the dot, is such a path.

    A call that writes is none: to write beside the sources is wrong wherever they are.
    """
    module = flow.module
    starts = line_starts(data)
    found = []
    for call in module.calls:
        callee = call.func
        name = callee.id if isinstance(callee, ast.Name) else getattr(callee, "attr", "")
        if name not in callees or _writes(call):
            continue
        operands: list[ast.expr] = [*call.args[:1], *(each.value for each in call.keywords[:1])]
        if isinstance(callee, ast.Attribute):
            operands.append(callee.value)
        if any(each in flow.marks for each in operands):
            start = starts[call.lineno - 1] + call.col_offset
            end = starts[(call.end_lineno or 0) - 1] + (call.end_col_offset or 0)
            text = data[start:end].decode("utf-8")
            where = module.function_of(call)
            found.append(Site(module.path, call.lineno, where, name, start, end, text, call))
    return found


def line_starts(data: bytes) -> list[int]:
    """Return where each line begins, as Python counts lines; it does not count a byte order mark."""
    mark = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    return [mark, *(found.end() for found in _NEWLINE.finditer(data))]


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
