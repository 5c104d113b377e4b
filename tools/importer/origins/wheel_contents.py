# SPDX-License-Identifier: Apache-2.0
"""Recognize upstream's files in a wheel, which adds build outputs and omits many sources."""

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
    """Path patterns that describe a wheel. `*` also matches slashes.

    `roots` are the packages, at the same paths as in upstream's repository. Under them, `built`
    matches files that the build adds, and `left_out` matches upstream files that are not in the
    wheel.
    """

    roots: tuple[str, ...]
    built: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def is_upstream(self, path: str) -> bool:
        """Return whether a member of a wheel is a file from upstream's repository."""
        return path.partition("/")[0] in self.roots and not self._built.match(path)

    def would_hold(self, path: str, kinds: Collection[Kind]) -> bool:
        """Return whether a wheel would contain `path` if upstream's repository did.

        A wheel contains every Python module of its packages. It contains other files only if their
        kind is in `kinds`.
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
    """Read a project's patterns. Raises UserError if their file is missing or malformed."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        return WheelContents(*(tuple(data[key]) for key in ("roots", "built", "left_out")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{file}: {error!r}. It needs lists of text under roots, built and left_out"
        ) from error


def kind_of(path: str) -> Kind:
    """Return the kind of a file: the first two directories in its path, and its suffix."""
    directory, name = posixpath.split(path)
    return "/".join(directory.split("/")[:2]), posixpath.splitext(name)[1]


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    # (?!) matches nothing, so an empty list of patterns matches no path.
    return re.compile("|".join(map(fnmatch.translate, patterns)) or r"(?!)")
