# SPDX-License-Identifier: Apache-2.0
"""Parse a suite's package index and resolve dependencies in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_FIELD = re.compile(r"^(Package|Version|Section|Depends|Pre-Depends|Provides): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Package:
    """A package in apt's index. Each dependency is a list of alternatives, in the index's order."""

    name: str
    version: str
    section: str
    depends: tuple[tuple[str, ...], ...] = ()
    provides: tuple[str, ...] = ()


@dataclass(frozen=True)
class PackageIndex:
    """The requested packages of a suite, and all of its shared-library packages."""

    packages: Mapping[str, Package]
    providers: Mapping[str, str] = field(default_factory=dict)

    def libraries_below(self, roots: Iterable[str]) -> list[str]:
        """Return the shared-library packages that `roots` need, directly or indirectly, sorted.

        Only dependencies in the `libs` section are followed, because Bazel's other dependencies
        (compilers, a JDK, documentation) are not needed to run it. If this misses a library, the
        final check of the prefix reports it.
        """
        libraries: set[str] = set()
        queue = list(roots)
        while queue:
            for alternatives in self.packages[queue.pop()].depends:
                library = next(filter(None, map(self._library, alternatives)), None)
                if library is not None and library not in libraries:
                    libraries.add(library)
                    queue.append(library)
        return sorted(libraries)

    def _library(self, name: str) -> str | None:
        real = name if name in self.packages else self.providers.get(name, "")
        package = self.packages.get(real)
        return package.name if package and package.section == "libs" else None


def parse(dump: str, *, names: Iterable[str]) -> PackageIndex:
    """Parse the output of `apt-cache dumpavail`.

    Packages that are neither libraries nor in `names` are omitted.
    """
    selected = set(names)
    packages: dict[str, Package] = {}
    providers: dict[str, str] = {}
    for paragraph in dump.split("\n\n"):
        name = paragraph.partition("\n")[0].removeprefix("Package: ")
        if name not in selected and "\nSection: libs\n" not in f"{paragraph}\n":
            continue
        package = _package(paragraph)
        packages[package.name] = package
        for virtual in package.provides:
            providers.setdefault(virtual, package.name)
    return PackageIndex(packages, providers)


def _package(paragraph: str) -> Package:
    fields = dict(_FIELD.findall(paragraph))
    clauses = [
        clause
        for name in ("Pre-Depends", "Depends")
        for clause in fields.get(name, "").split(",")
        if clause.strip()
    ]
    return Package(
        name=fields["Package"],
        version=fields.get("Version", ""),
        section=fields.get("Section", ""),
        depends=tuple(tuple(map(_bare, clause.split("|"))) for clause in clauses),
        provides=tuple(
            _bare(name) for name in fields.get("Provides", "").split(",") if name.strip()
        ),
    )


def _bare(dependency: str) -> str:
    """Return the package name in a dependency, such as `libc6` for `libc6:any (>= 2.38)`."""
    return re.split(r"[\s:(\[]", dependency.strip(), maxsplit=1)[0]
