# SPDX-License-Identifier: Apache-2.0
"""Find upstream's paths in a wheel, which adds build outputs and omits many source files."""

from __future__ import annotations

import fnmatch
import json
import posixpath
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tools.importer.errors import UserError

_NATIVE = ("*.so", "*.so.*", "*.dylib", "*.dll", "*.pyd", "*.a", "*.lib", "*.exe")
_PYTHON = (".py", ".pyi")

Kind = tuple[str, str]


@dataclass(frozen=True)
class WheelContents:
    """Path patterns, in which `*` also matches slashes.

    `roots` are packages at the same path in upstream's repository. Below them, `built` matches
    files that the build adds, and `left_out` matches upstream files that the build does not pack.
    """

    roots: tuple[str, ...]
    built: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def is_upstream(self, path: str) -> bool:
        """Return whether a wheel's member is a file in upstream's repository."""
        return path.partition("/")[0] in self.roots and not self._built.match(path)

    def would_hold(self, path: str, kinds: Collection[Kind]) -> bool:
        """Return whether a wheel with files of these kinds would contain `path` if upstream had it.

        A wheel contains every Python module of its packages. It contains other files if their kind
        is packed.
        """
        if not self.is_upstream(path) or self._left_out.match(path):
            return False
        return path.endswith(_PYTHON) or kind_of(path) in kinds

    @cached_property
    def _built(self) -> re.Pattern[str]:
        return _any_of((*_NATIVE, *self.built))

    @cached_property
    def _left_out(self) -> re.Pattern[str]:
        return _any_of(self.left_out)


def read_contents(file: Path) -> WheelContents:
    """Read a project's patterns. Raises UserError if the file is missing or damaged."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        return WheelContents(*(tuple(data[key]) for key in ("roots", "built", "left_out")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{file}: {error!r}. It needs lists of text under roots, built and left_out"
        ) from error


def kind_of(path: str) -> Kind:
    """Return the first two directories and the suffix of a path."""
    directory, name = posixpath.split(path)
    return "/".join(directory.split("/")[:2]), posixpath.splitext(name)[1]


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    # (?!) matches nothing, so that an empty list of patterns excludes no path.
    return re.compile("|".join(map(fnmatch.translate, patterns)) or r"(?!)")
