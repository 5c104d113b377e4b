# SPDX-License-Identifier: Apache-2.0
"""Replays a snapshot to find the memory use over time, and the storages live at its peak."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

# Directories whose frames are internal: those of torch and of this package.
_INTERNAL = (
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(os.path.dirname(__file__)) + os.sep,
)
BEFORE = "allocated before the recording"
NO_MODULE = "outside of forward"
NO_LINE = "without a Python stack: backward, or a compiled graph"


@dataclass(frozen=True)
class Live:
    """A live storage. `owner` is empty if no module or optimizer refers to the storage now."""

    size: int
    module: str
    line: str
    owner: str


@dataclass(frozen=True)
class Replay:
    """The memory use after each event, as (microseconds, bytes), and the storages at the peak."""

    timeline: list[tuple[int, int]]
    peak: int
    peak_time: int
    at_peak: list[Live]
    now: list[Live]
    bytes_now: int


def replay(
    snapshot: Mapping[str, Any], owners: Mapping[int, str], device: int, bytes_now: int
) -> Replay:
    """Replay the events of a device. `bytes_now` is the total size of all storages live now.

    Storages whose individual sizes are unknown are combined into one Live object.
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
    """Return (value, bytes, count) for each value of a field of Live, most bytes first."""
    sizes: Counter[str] = Counter()
    numbers: Counter[str] = Counter()
    for each in live:
        name = getattr(each, field)
        sizes[name] += each.size
        numbers[name] += 1
    return [(name, size, numbers[name]) for name, size in sizes.most_common()]


def user_line(frames: Iterable[Mapping[str, Any]]) -> str:
    """Return the innermost line that is neither in torch nor in this package, or NO_LINE."""
    for frame in frames:
        file = frame["filename"]
        # Modules frozen into the interpreter or a PAR file have file names in angle brackets.
        if not file.startswith(("<", *_INTERNAL)):
            return f"{file}:{frame['line']} {frame['name']}"
    return NO_LINE


def _live(size: int, of: Mapping[str, Any], owner: str) -> Live:
    module = of["user_metadata"]
    if not of["frames"] and not module:
        # Without a stack, `of` is either a block (only blocks have a "state") that was allocated
        # before recording started, or an event that was recorded without a Python stack.
        unknown = BEFORE if "state" in of else NO_LINE
        return Live(size, owner or (BEFORE if "state" in of else NO_MODULE), unknown, owner)
    return Live(size, owner or module or NO_MODULE, user_line(of["frames"]), owner)


def _sign(event: Mapping[str, Any]) -> int:
    return 1 if event["action"] == "alloc" else -1


def _with_rest(live: list[Live], total: int) -> list[Live]:
    """Append an item for the bytes of `total` that no storage in the list accounts for."""
    rest = total - sum(each.size for each in live)
    return [*live, Live(rest, BEFORE, BEFORE, "")] if rest > 0 else live
