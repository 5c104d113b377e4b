# SPDX-License-Identifier: Apache-2.0
"""Cache how paths flow through a source file, instead of its much larger syntax tree.

These facts depend only on the file's bytes and on the paths that it receives from other files, so
they are cached across trees and rules: an import checks upstream's tree and then the patched tree,
in which only about a dozen of 2,000 files differ.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from tools.importer.rewrites.flow import Export, Flow, Given, Passed
from tools.importer.rewrites.module import Module
from tools.importer.rewrites.sites import Site, sites_in
from tools.importer.snapshot import blob_id

# An `ast` tree is forty times as large as its source, so keep only trees that will be used soon.
_HELD_BYTES = 1 << 20


@dataclass(frozen=True)
class Facts:
    """How paths computed from `__file__` flow through a file, including paths from other files.

    `exports` lists the file's names that hold these paths, `passed` the paths that it passes to
    other files, and `sites` its calls that use these paths.
    """

    exports: frozenset[Export]
    passed: frozenset[Passed]
    sites: tuple[Site, ...]


NOTHING = Facts(frozenset(), frozenset(), ())


@dataclass(frozen=True)
class Tree:
    """The Python files of a tree, keyed by path."""

    files: Mapping[str, bytes]

    @cached_property
    def ids(self) -> Mapping[str, str]:
        return {path: blob_id(data) for path, data in self.files.items()}


class Modules:
    """The facts about files, cached by content, so that only changed files are parsed again."""

    def __init__(self) -> None:
        self._facts: dict[tuple[str, str, frozenset[Given]], Facts | None] = {}
        self._held: dict[tuple[str, str], Module | None] = {}
        self._held_bytes: dict[tuple[str, str], int] = {}
        self._naming: dict[bytes, dict[str, bool]] = {}
        self.count = 0

    def get(self, path: str, data: bytes) -> Module | None:
        """Return the parsed file, or None if it cannot be parsed (see `readable`)."""
        return self._module(path, data, blob_id(data))

    def facts(self, tree: Tree, path: str, given: frozenset[Given]) -> Facts | None:
        """Return the facts about a file, or None if it cannot be parsed (see `readable`)."""
        key = (path, tree.ids[path], given)
        if key not in self._facts:
            data = tree.files[path]
            module = self._module(path, data, key[1])
            self._facts[key] = None if module is None else _learn(module, data, given)
        return self._facts[key]

    def naming(self, tree: Tree, words: Collection[bytes]) -> list[str]:
        """Return the paths of the files that contain at least one of `words`."""
        known = [self._naming.setdefault(word, {}) for word in words]
        paths = []
        for path, data in tree.files.items():
            key = tree.ids[path]
            for word, named in zip(words, known, strict=True):
                if key not in named:
                    named[key] = word in data
                if named[key]:
                    paths.append(path)
                    break
        return paths

    def _module(self, path: str, data: bytes, content: str) -> Module | None:
        key = (path, content)
        if key in self._held:
            # Mark the entry as the most recently used one, so that it is evicted last.
            self._held[key] = self._held.pop(key)
            return self._held[key]
        self._held_bytes[key] = len(data)
        while self._held and sum(self._held_bytes.values()) > _HELD_BYTES:
            oldest = next(iter(self._held))
            del self._held[oldest], self._held_bytes[oldest]
        self._held[key] = _parse(path, data)
        self.count += 1
        return self._held[key]


def readable(data: bytes) -> bool:
    """Return whether the file is UTF-8 and declares no other encoding.

    In other encodings, the positions in its `ast` tree would not be byte offsets in the file.
    """
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return _COOKIE.match(data) is None


def _parse(path: str, data: bytes) -> Module | None:
    try:
        return Module(path, data) if readable(data) else None
    except (SyntaxError, ValueError, RecursionError):
        return None


def _learn(module: Module, data: bytes, given: Collection[Given]) -> Facts:
    flow = Flow(module)
    flow.start()
    for each in given:
        flow.give(each)
    return Facts(frozenset(flow.exports), frozenset(flow.passed), sites_in(flow, data))


_COOKIE = re.compile(rb"(?:[^\n]*\n)?[ \t\f]*#[^\n]*coding[:=](?![ \t]*utf-?8)", re.IGNORECASE)
