# SPDX-License-Identifier: Apache-2.0
"""Find the calls in a whole tree that read a path computed from `__file__`.

A file is parsed only if it contains a source of such paths (such as `__file__`), or a name through
which another file exports such a path. So a tree of 2,000 files takes only a second or two.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tools.importer.rewrites.facts import NOTHING, Facts, Modules, Tree
from tools.importer.rewrites.flow import SOURCE_TOKENS, Export, Given, Imported, Passed, Taken
from tools.importer.rewrites.sites import Site


@dataclass(frozen=True)
class Reached:
    """The calls in a tree that use paths computed from `__file__`.

    `unread` names the files that could not be parsed. They may contain more of these calls.
    """

    unread: tuple[str, ...]
    _sites: tuple[Site, ...]

    def sites(self, callees: Collection[str]) -> list[Site]:
        """Return the calls to `callees` that use a path computed from `__file__`."""
        return [site for site in self._sites if site.callee in callees]


def reach(files: Mapping[str, bytes], modules: Modules) -> Reached:
    """Follow the paths computed from `__file__` through a whole tree."""
    search = _Search(Tree(files), modules)
    paused = gc.isenabled()
    gc.disable()  # parsing creates many nodes but no garbage; collection would take 25% more time
    try:
        search.run()
    finally:
        if paused:
            gc.enable()
    sites = [site for facts in search.facts.values() for site in facts.sites]
    ordered = sorted(sites, key=lambda site: (site.path, site.start, site.end))
    return Reached(tuple(sorted(search.unread)), tuple(ordered))


class _Search:
    """A worklist of files. New facts about a file's names are propagated to its importers."""

    def __init__(self, tree: Tree, modules: Modules) -> None:
        self.facts: dict[str, Facts] = {}
        self.unread: set[str] = set()
        self._tree = tree
        self._modules = modules
        self._given: dict[str, set[Given]] = defaultdict(set)

    def run(self) -> None:
        due = set(self._modules.naming(self._tree, SOURCE_TOKENS))
        while due:
            path = min(due)
            due.remove(path)
            facts = self._modules.facts(self._tree, path, frozenset(self._given[path]))
            if facts is None:
                self.unread.add(path)
                continue
            before = self.facts.get(path, NOTHING)
            self.facts[path] = facts
            due |= self._hand_over(facts.passed - before.passed)
            due |= self._export(path, facts.exports - before.exports)

    def _hand_over(self, new: Collection[Passed]) -> set[str]:
        """Propagate paths passed to functions in other files. Return the files to analyze again."""
        return {
            path
            for passed in new
            for path in passed.target.files
            if path in self._tree.files
            and self._give(path, {Taken(passed.target.name, passed.parameter)})
        }

    def _export(self, maker: str, new: Collection[Export]) -> set[str]:
        """Propagate paths to files that may import them. Return the files to analyze again."""
        if not new:
            return set()
        handed = {Imported(maker, export) for export in new}
        names = {export.name.encode() for export in new}
        # A file can use a name from a module only if it also contains the module's name.
        stem = maker.removesuffix(".py").removesuffix("/__init__").rpartition("/")[2]
        return {
            user
            for user in self._modules.naming(self._tree, [stem.encode()])
            if user != maker
            and any(word in self._tree.files[user] for word in names)
            and self._give(user, handed)
        }

    def _give(self, path: str, given: Collection[Given]) -> bool:
        before = len(self._given[path])
        self._given[path].update(given)
        return len(self._given[path]) > before
