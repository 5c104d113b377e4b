# SPDX-License-Identifier: Apache-2.0
"""Replays a snapshot: the bytes over time, the peak, and the storages that were live then."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

# Frames of torch and of the device are not the user's.
_INTERNAL = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(os.path.dirname(__file__)) + os.sep,
)
BEFORE = "allocated before the recording"
NO_MODULE = "outside of forward"
NO_LINE = "without a Python stack: backward, or a compiled graph"


@dataclass(frozen=True)
class Live:
    """A live storage. `owner` is empty unless a module or optimizer has it now."""

    size: int
    module: str
    line: str
    owner: str


@dataclass(frozen=True)
class Replay:
    """The bytes after each event, as (microseconds, bytes), and the live storages at the peak."""

    timeline: list[tuple[int, int]]
    peak: int
    peak_time: int
    at_peak: list[Live]
    now: list[Live]
    bytes_now: int


def replay(
    snapshot: Mapping[str, Any], owners: Mapping[int, str], device: int, bytes_now: int
) -> Replay:
    """Replay the events of a device. `bytes_now` are the bytes of all storages that are live now.

    Storages that no event allocated are one item, because only the sum of their bytes is known.
    """
    events = snapshot["device_traces"][device]
    live = {
        block["address"]: _live(block["size"], block, owners.get(block["address"], ""))
        for segment in snapshot["segments"]
        if segment["device"] == device
        for block in segment["blocks"]
    }
    change = sum(event["size"] * _sign(event) for event in events)
    current = bytes_now - change
    peak, peak_index = current, -1
    timeline: list[tuple[int, int]] = []
    for index, event in enumerate(events):
        current += event["size"] * _sign(event)
        timeline.append((event["time_us"], current))
        if current > peak:
            peak, peak_index = current, index
    open_events: dict[int, Mapping[str, Any]] = {}
    for event in events[: peak_index + 1]:
        if event["action"] == "alloc":
            open_events[event["addr"]] = event
        else:
            open_events.pop(event["addr"], None)
    at_peak = [
        _live(event["size"], event, owners.get(address, ""))
        for address, event in open_events.items()
    ]
    return Replay(
        timeline=timeline,
        peak=peak,
        peak_time=timeline[peak_index][0] if peak_index >= 0 else 0,
        at_peak=_with_rest(at_peak, peak),
        now=_with_rest(list(live.values()), bytes_now),
        bytes_now=bytes_now,
    )


def totals(live: Iterable[Live], field: str) -> list[tuple[str, int, int]]:
    """Return (name, bytes, number) for each value of a field, the largest first."""
    sizes: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    for each in live:
        name = getattr(each, field)
        sizes[name] += each.size
        numbers[name] += 1
    return [(name, size, numbers[name]) for name, size in sizes.most_common()]


def user_line(frames: Iterable[Mapping[str, Any]]) -> str:
    """Return the innermost line that is not torch's, or NO_LINE."""
    for frame in frames:
        file = frame["filename"]
        # Frozen modules of the interpreter and of a PAR have names in angle brackets.
        if not file.startswith(("<", *_INTERNAL)):
            return f"{file}:{frame['line']} {frame['name']}"
    return NO_LINE


def _live(size: int, of: Mapping[str, Any], owner: str) -> Live:
    module = of["user_metadata"]
    if not of["frames"] and not module:
        # A storage without stack is from before the recording, if it has an owner or is a block.
        unknown = BEFORE if "state" in of else NO_LINE
        return Live(size, owner or (BEFORE if "state" in of else NO_MODULE), unknown, owner)
    return Live(size, owner or module or NO_MODULE, user_line(of["frames"]), owner)


def _sign(event: Mapping[str, Any]) -> int:
    return 1 if event["action"] == "alloc" else -1


def _with_rest(live: list[Live], total: int) -> list[Live]:
    """Add the bytes of storages that are not in the list."""
    rest = total - sum(each.size for each in live)
    return [*live, Live(rest, BEFORE, BEFORE, "")] if rest > 0 else live
