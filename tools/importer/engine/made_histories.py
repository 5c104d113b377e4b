# SPDX-License-Identifier: Apache-2.0
"""Test support: random histories of a source file, in which every line has a hidden identity.

Lines with identical text are still distinct. Upstream's releases and the patches edit lines by
identity, so the correct result of each merge is known. The files resemble Python code: half of the
lines are blank or common, and some functions are copies of others under a different name.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tools.importer.engine.line_identity import LineEdit, Story

_COMMON = (
    *("\n", "\n", "\n", "    return out\n", "    else:\n", "        pass\n", "    try:\n"),
    *("    )\n", "        continue\n", "    if not out:\n", "    out = []\n"),
)


@dataclass(frozen=True)
class Line:
    """A line of a file. Its `number` is its identity."""

    number: int
    text: bytes


Version = tuple[Line, ...]


@dataclass(frozen=True)
class Edit:
    """An edit that replaces the lines `start` to `stop` of a version with `new`."""

    start: int
    stop: int
    new: Version

    @property
    def of_texts(self) -> LineEdit:
        return LineEdit(self.start, self.stop, texts(self.new))


@dataclass(frozen=True)
class Merge:
    """A merge of upstream's version (`ours`) with a patch from `base` to `theirs`."""

    base: Version
    ours: Version
    theirs: Version

    @cached_property
    def story(self) -> Story:
        """Return this merge as edits by line position, which determine the expected result."""
        upstream, patch = (edits(self.base, side) for side in (self.ours, self.theirs))
        return Story(
            texts(self.base),
            tuple(edit.of_texts for edit in upstream),
            tuple(edit.of_texts for edit in patch),
        )

    @cached_property
    def result(self) -> Version | None:
        """Return the correct result; None if the two sides conflict."""
        if self.story.truth is None:
            return None
        pending = [
            edit
            for edit in edits(self.base, self.theirs)
            if not Story(self.story.base, self.story.upstream, (edit.of_texts,)).landed
        ]
        combined = sorted([*edits(self.base, self.ours), *pending], key=lambda edit: edit.of_texts)
        removed = {line for edit in combined for line in range(edit.start, edit.stop)}
        out: list[Line] = []
        for index in range(len(self.base) + 1):
            out += (line for edit in combined if edit.start == index for line in edit.new)
            if index < len(self.base) and index not in removed:
                out.append(self.base[index])
        assert texts(tuple(out)) == self.story.truth
        return tuple(out)


def texts(version: Version) -> tuple[bytes, ...]:
    return tuple(line.text for line in version)


def edits(base: Version, side: Version) -> tuple[Edit, ...]:
    """Return the edits from `base` to `side`. Lines that are in both must be in the same order."""
    old, new = ({line.number for line in version} for version in (base, side))
    out: list[Edit] = []
    index = position = 0
    while index < len(base) or position < len(side):
        start, begin = index, position
        while index < len(base) and base[index].number not in new:
            index += 1
        while position < len(side) and side[position].number not in old:
            position += 1
        if (start, begin) != (index, position):
            out.append(Edit(start, index, side[begin:position]))
        index, position = index + 1, position + 1
    return tuple(out)


def make_history(seed: int) -> Iterator[Merge]:
    """Yield the merges that rebase a patch series onto each upstream release in turn.

    After each merge, the history continues with the correct result. A patch that conflicts with
    upstream is dropped.
    """
    return _Maker(random.Random(seed)).merges()


class _Maker:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.numbers = itertools.count()

    def line(self, text: str) -> Line:
        return Line(next(self.numbers), text.encode())

    def merges(self) -> Iterator[Merge]:
        release = self.file()
        states = [release]
        for _ in range(self.chance.randint(1, 3)):
            states.append(self.edited(states[-1], self.chance.randint(1, 2)))
        patches = list(itertools.pairwise(states))
        for _ in range(self.chance.randint(1, 3)):
            release = self.next_release(release, patches)
            ours, carried = release, list[tuple[Version, Version]]()
            for base, theirs in patches:
                merge = Merge(base, ours, theirs)
                yield merge
                result = merge.result
                if result is None or result == ours:
                    continue  # it conflicts with upstream, or has landed
                carried.append((ours, result))
                ours = result
            patches = carried

    def file(self) -> Version:
        functions = [self.function() for _ in range(self.chance.randint(3, 7))]
        for index, lines in enumerate(functions):
            if index and self.chance.random() < 0.3:
                copied = self.chance.choice(functions[:index])
                functions[index] = [lines[0], *copied[1:]]
        return tuple(self.line(text) for lines in functions for text in lines)

    def function(self) -> list[str]:
        name = self.chance.randrange(10**6)
        body = [self.statement() for _ in range(self.chance.randint(2, 9))]
        return [f"def function_{name}(out):\n", *body, "    return out\n", "\n", "\n"]

    def statement(self) -> str:
        if self.chance.random() < 0.5:
            return self.chance.choice(_COMMON)
        return f"    value_{self.chance.randrange(10**6)} = call(out)\n"

    def next_release(self, release: Version, patches: Sequence[tuple[Version, Version]]) -> Version:
        """Return the next release, in which upstream may have merged one of the patches."""
        if patches and self.chance.random() < 0.3:
            base, theirs = self.chance.choice(patches)
            release = Merge(base, release, theirs).result or release
        return self.edited(release, self.chance.randint(1, 4))

    def edited(self, version: Version, count: int) -> Version:
        for _ in range(count):
            change: Callable[[Version], Version] = self.chance.choices(
                [self.replace, self.insert, self.remove, self.copy], [4, 4, 2, 1]
            )[0]
            version = change(version)
        return version

    def some(self, version: Version, most: int = 3) -> tuple[int, int]:
        start = self.chance.randrange(len(version))
        return start, min(start + self.chance.randint(1, most), len(version))

    def replace(self, version: Version) -> Version:
        start, stop = self.some(version)
        new = [self.line(self.statement()) for _ in range(self.chance.randint(1, 3))]
        return (*version[:start], *new, *version[stop:])

    def insert(self, version: Version) -> Version:
        start = self.chance.randint(0, len(version))
        if self.chance.random() < 0.3:
            new = [self.line(text) for text in self.function()]
        else:
            new = [self.line(self.statement()) for _ in range(self.chance.randint(1, 3))]
        return (*version[:start], *new, *version[start:])

    def remove(self, version: Version) -> Version:
        start, stop = self.some(version, 6)
        return version if stop - start == len(version) else (*version[:start], *version[stop:])

    def copy(self, version: Version) -> Version:
        """Copy some lines to another position."""
        start, stop = self.some(version, 8)
        target = self.chance.randint(0, len(version))
        new = [self.line(line.text.decode()) for line in version[start:stop]]
        return (*version[:target], *new, *version[target:])
