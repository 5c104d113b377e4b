# SPDX-License-Identifier: Apache-2.0
"""Measure builds after repeated edits, or one build from scratch."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.static_rebuild.clone import Build, Clone
from benchmarks.static_rebuild.edits import Edit, EditError, Places, Way, editing

NOTHING = "nothing"


@dataclass(frozen=True)
class Figure:
    """The result for one edit: the medians of the fields of `Build` over the rounds.

    `walls` contains the wall time of each round, `runners` the counts of the last round.
    """

    name: str
    title: str
    way: str
    goal: float | None
    wall: float
    cpu: float
    bazel_cpu: float
    together: float
    largest: float
    runners: Mapping[str, int]
    walls: tuple[float, ...]


def rebuilds(clone: Clone, edits: Sequence[Edit], *, rounds: int) -> Iterator[Figure]:
    """Yield the cost of a no-op build, then the cost of a build after each edit."""
    clone.build()  # This build is a warm-up and is not counted.
    yield _figure(NOTHING, "nothing", "", None, [clone.build() for _ in range(rounds)])
    option: tuple[str, ...] = ()
    tree = clone.work
    if any(edit.way is Way.TREE for edit in edits):
        tree, word = clone.own_tree()
        option = (word,)
    places = Places(clone.root, tree, clone.source, clone.series)
    for edit in edits:
        flags = option if edit.way is Way.TREE else ()
        clone.build(*flags)  # Rebuild the files whose previous edit was reverted.
        with editing(edit, places) as make:
            builds = [_after(edit, make, clone, flags) for _ in range(rounds)]
        yield _figure(edit.name, edit.title, edit.way.value, edit.goal, builds)


def cold(source: Path, work: Path, options: Sequence[str]) -> Iterator[Figure]:
    """Yield the cost of a build with --nobuild, then that of a build with an empty cache.

    With --nobuild, Bazel fetches, unpacks and loads its inputs, but runs no action. Delete all
    outputs at the end.
    """
    cache = work.absolute() / "cold_cache"
    shutil.rmtree(cache, ignore_errors=True)
    without = (f"--disk_cache={cache}", "--remote_cache=", *options)
    clone = Clone(source, work, outputs="cold_outputs", options=without)
    try:
        if clone.output_base.exists():
            clone.remove_outputs()
        fetched = clone.build("--nobuild")
        yield _figure("fetch", "fetching, unpacking, loading", "", None, [fetched])
        yield _figure("cold", "every action, no cache", "", None, [clone.build()])
    finally:
        clone.remove_outputs()
        shutil.rmtree(cache, ignore_errors=True)


def _after(edit: Edit, make: Callable[[str], None], clone: Clone, flags: Sequence[str]) -> Build:
    before = clone.digest()
    make(f"{time.time_ns():x}")  # The word is unique, so that no cache contains the result.
    build = clone.build(*flags)
    if clone.digest() == before:
        raise EditError(
            f"{edit.name}: the program is the same with another {edit.path}. Choose a place in "
            "benchmarks/static_rebuild/edits.py that is part of the program"
        )
    return build


def _figure(name: str, title: str, way: str, goal: float | None, builds: Sequence[Build]) -> Figure:
    return Figure(
        name,
        title,
        way,
        goal,
        statistics.median(build.wall for build in builds),
        statistics.median(build.cpu for build in builds),
        statistics.median(build.bazel_cpu for build in builds),
        statistics.median(build.together for build in builds),
        statistics.median(build.largest for build in builds),
        builds[-1].runners,
        tuple(build.wall for build in builds),
    )
