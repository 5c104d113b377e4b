# SPDX-License-Identifier: Apache-2.0
"""Expand Slurm's host lists: `n[1-3,07]-ib` stands for n1-ib, n2-ib, n3-ib and n07-ib.

`scontrol show hostnames` does the same, but containers usually lack scontrol.
"""

from __future__ import annotations

import re

_MOST = 65536  # the maximum number of hosts in a range; a longer one must be a mistake
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def hosts(text: str) -> list[str]:
    """Return the host names in `text`. Raises ValueError if it is not a valid host list."""
    result = [host for item in _split(text) for host in _expand(item, text)]
    if not all(result) or not result:
        raise ValueError(f"found the host list {text!r}, expected a form like n[1-3],m7")
    return result


def _split(text: str) -> list[str]:
    """Split at commas that are outside brackets."""
    return re.split(r",(?![^\[\]]*\])", text)


def _expand(item: str, text: str) -> list[str]:
    before, bracket, rest = item.partition("[")
    if not bracket:
        if "]" in item:
            raise ValueError(f"found the host list {text!r}: a ']' without '['")
        return [item]
    inside, bracket, after = rest.partition("]")
    if not bracket:
        raise ValueError(f"found the host list {text!r}: a '[' without ']'")
    tails = _expand(after, text) if after else [""]
    return [f"{before}{number}{tail}" for number in _numbers(inside, text) for tail in tails]


def _numbers(inside: str, text: str) -> list[str]:
    result = []
    for part in inside.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"found the host list {text!r}: {part!r} is no range of numbers")
        first, last = match[1], match[2] or match[1]
        if not 0 <= int(last) - int(first) < _MOST:
            raise ValueError(f"found the host list {text!r}: {part!r} is no range of numbers")
        width = len(first)
        result += [f"{number:0{width}}" for number in range(int(first), int(last) + 1)]
    return result
