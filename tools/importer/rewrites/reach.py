# SPDX-License-Identifier: Apache-2.0
"""Find, in a whole tree, the calls that read a path computed from `__file__`.

Files are looked at only if their bytes name a source of such paths, or something that another file
was found to hand out; so 2,000 files take a second or two.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tools.importer.rewrites.flow import SOURCE_TOKENS, Flow, Passed
from tools.importer.rewrites.module import Module
from tools.importer.rewrites.sites import Site, sites_in


@dataclass
class Modules:
    """Parsed files by content, so that a second look at a tree parses only what changed."""

    _parsed: dict[tuple[str, bytes], Module | None] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self._parsed)

    def get(self, path: str, data: bytes) -> Module | None:
        """Return the parsed file, or None where Python could not read it (see `readable`)."""
        key = (path, data)
        if key not in self._parsed:
            try:
                self._parsed[key] = Module(path, data) if readable(data) else None
            except (SyntaxError, ValueError, RecursionError):
                self._parsed[key] = None
        return self._parsed[key]


def readable(data: bytes) -> bool:
    """Whether places in these bytes can be named: UTF-8, whatever its newlines."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return _COOKIE.match(data) is None


@dataclass(frozen=True)
class Reached:
    """Where such paths go in a tree. `unread` are files that name one and that nobody could read."""

    unread: tuple[str, ...]
    _flows: Mapping[str, Flow]
    _files: Mapping[str, bytes]

    def sites(self, callees: Collection[str]) -> list[Site]:
        """Return the calls of `callees`, by last name, on such paths, in the order of the files."""
        sites = [
            site
            for path, flow in self._flows.items()
            for site in sites_in(flow, self._files[path], callees)
        ]
        return sorted(sites, key=lambda site: (site.path, site.start))


def reach(files: Mapping[str, bytes], modules: Modules) -> Reached:
    """Follow the paths that are computed from `__file__` through a tree."""
    search = _Search(files, modules)
    paused = gc.isenabled()
    gc.disable()  # a million nodes, none of them garbage: looking for it costs a quarter of the time
    try:
        search.run()
    finally:
        if paused:
            gc.enable()
    return Reached(tuple(sorted(search.unread)), search.flows, files)


class _Search:
    """The work list over files: whatever one learns about its names, its importers must know."""

    def __init__(self, files: Mapping[str, bytes], modules: Modules) -> None:
        self.files = files
        self.modules = modules
        self.flows: dict[str, Flow] = {}
        self.unread: set[str] = set()
        self._handed: set[Passed] = set()
        self._exported: set[tuple[str, str, bool]] = set()

    def run(self) -> None:
        for path in self._naming(SOURCE_TOKENS):
            flow = self._flow(path)
            if flow is not None:
                flow.start()
        while self._hand_over() or self._export():
            pass

    def _hand_over(self) -> bool:
        new = {passed for flow in self.flows.values() for passed in flow.passed} - self._handed
        self._handed |= new
        for passed in new:
            for path in passed.target.files:
                flow = self._flow(path) if path in self.files else None
                if flow is not None:
                    flow.take_parameter(passed.target.name, passed.parameter)
        return bool(new)

    def _export(self) -> bool:
        found = {
            (flow.module.path, name, called)
            for flow in self.flows.values()
            for names, called in ((flow.names, False), (flow.returns, True))
            for name in names
        }
        new = found - self._exported
        self._exported |= new
        for maker in sorted({path for path, _, _ in new}):
            handed = {(name, called) for path, name, called in new if path == maker}
            # Who uses a name of a module names that module as well.
            stem = maker.removesuffix(".py").removesuffix("/__init__").rpartition("/")[2]
            for user in self._naming([stem.encode()], [name.encode() for name, _ in handed]):
                flow = self._flow(user) if user != maker else None
                if flow is not None:
                    for name, called in handed:
                        flow.take_import(name, (maker,), called=called)
        return bool(new)

    def _flow(self, path: str) -> Flow | None:
        if path not in self.flows:
            module = self.modules.get(path, self.files[path])
            if module is None:
                self.unread.add(path)
                return None
            self.flows[path] = Flow(module)
        return self.flows[path]

    def _naming(self, *groups: Collection[bytes]) -> list[str]:
        """Return the files that name at least one of each group."""
        return [
            path
            for path, data in self.files.items()
            if all(any(name in data for name in names) for names in groups)
        ]


_COOKIE = re.compile(rb"(?:[^\n]*\n)?[ \t\f]*#[^\n]*coding[:=](?![ \t]*utf-?8)", re.IGNORECASE)
