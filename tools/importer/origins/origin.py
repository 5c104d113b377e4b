# SPDX-License-Identifier: Apache-2.0
"""The interface of origins, from which the importer gets upstream's releases."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tools.importer.errors import UserError
from tools.importer.snapshot import Snapshot

Pin = Mapping[str, object]

_LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+~-]*(/[A-Za-z0-9_][A-Za-z0-9_.+~-]*)*")
_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*(?:[-.]?(?:a|b|rc|post)\d+)?)")


@dataclass(frozen=True)
class Revision:
    """A request for a release tag, or for a git ref or commit.

    If `tag` and `ref` are both None, the latest state is requested. `release` is the version in the
    tag, according to the project's tag pattern.
    """

    tag: str | None = None
    ref: str | None = None
    release: str | None = None

    def __post_init__(self) -> None:
        if self.tag is not None and self.ref is not None:
            raise UserError(f"both a tag ({self.tag}) and a ref ({self.ref}) are given. Give one")
        for kind, name in (("tag", self.tag), ("ref", self.ref)):
            # A tag becomes the name of a patch series directory, so it must not contain `..`.
            if name is not None and not _LABEL.fullmatch(name):
                raise UserError(f"'{name}' cannot be the name of a {kind}. Write it as in v2.14.1")

    @property
    def name(self) -> str:
        return self.tag or self.ref or "the origin as it lies"

    @property
    def version(self) -> str | None:
        """Return the version in a release tag; None if the tag does not name a release."""
        match = _RELEASE.fullmatch(self.tag or "")
        return self.release or (match[1] if match else None)


class NotHereError(Exception):
    """The error raised if an origin lacks a release. `known` lists its releases.

    `complete` is False if this kind of origin lacks some releases, so the release may exist
    elsewhere.
    """

    def __init__(self, message: str, *, known: Iterable[str] = (), complete: bool = True) -> None:
        super().__init__(message)
        self.known = tuple(known)
        self.complete = complete


@runtime_checkable
class OriginSnapshot(Snapshot, Protocol):
    """A snapshot from an origin."""

    @property
    def natives(self) -> bool:
        """Return whether this is a CPU wheel for the build's platform, so the build can use it."""


class Origin(Protocol):
    """The interface of a source of upstream trees."""

    @property
    def title(self) -> str:
        """Return the display name of this kind of origin, for messages."""

    def find(self, revision: Revision) -> OriginSnapshot:
        """Fetch a release.

        Raises NotHereError if the origin lacks it, EnvironmentProblem if the origin cannot be
        reached, and UserError for an invalid request.
        """

    def open(self, pin: Pin) -> OriginSnapshot:
        """Return a pinned tree. Raises UserError if the origin's bytes no longer match the pin."""


def near(name: str, known: Iterable[str]) -> list[str]:
    """Return up to five names from `known` that resemble `name`, the most similar first."""
    return difflib.get_close_matches(name, list(dict.fromkeys(known)), n=5, cutoff=0.6)


def text_of(pin: Pin, key: str) -> str:
    """Return the string under `key` in the pin. Raises UserError if there is none."""
    value = pin.get(key)
    if not isinstance(value, str):
        raise UserError(
            f"the pin {dict(pin)} has no text under '{key}'. Restore the file that has it"
        )
    return value


def optional_text(pin: Pin, key: str) -> str | None:
    """Return the string under `key` in the pin, or None if the origin did not provide it."""
    return None if pin.get(key) is None else text_of(pin, key)
