# SPDX-License-Identifier: Apache-2.0
"""What an origin is, what it is asked for, and how it says that it has no such thing."""

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
class Wanted:
    """A release's tag, or any ref or commit of a git origin; with neither, the origin as it lies."""

    tag: str | None = None
    ref: str | None = None

    def __post_init__(self) -> None:
        if self.tag is not None and self.ref is not None:
            raise UserError(f"both a tag ({self.tag}) and a ref ({self.ref}) are given. Give one")
        for kind, name in (("tag", self.tag), ("ref", self.ref)):
            # A tag names a directory of the series: it must not lead elsewhere.
            if name is not None and not _LABEL.fullmatch(name):
                raise UserError(f"'{name}' cannot be the name of a {kind}. Write it as in v2.14.1")

    @property
    def name(self) -> str:
        return self.tag or self.ref or "the origin as it lies"

    @property
    def version(self) -> str | None:
        """The version that a release's tag stands for; None where it stands for none."""
        match = _RELEASE.fullmatch(self.tag or "")
        return match[1] if match else None


class NotHereError(Exception):
    """The origin answered, and has no such release. One line; `known` are names that it has.

    `complete` is False where a release may well exist that this kind of origin never has.
    """

    def __init__(self, message: str, *, known: Iterable[str] = (), complete: bool = True) -> None:
        super().__init__(message)
        self.known = tuple(known)
        self.complete = complete


@runtime_checkable
class OriginSnapshot(Snapshot, Protocol):
    """A snapshot as origins make it."""

    @property
    def natives(self) -> bool:
        """Whether it is the CPU wheel of the build's platform: the build's pin may move to it."""


class Origin(Protocol):
    """One kind of place that upstream's tree is had from."""

    @property
    def title(self) -> str:
        """What people call it in a message."""

    def find(self, wanted: Wanted) -> OriginSnapshot:
        """Fetch what is wanted. Raises NotHereError, EnvironmentProblem (out of reach) or UserError."""

    def open(self, pin: Pin) -> OriginSnapshot:
        """Give the pinned bytes again. Raises UserError where the origin has others by now."""


def near(name: str, known: Iterable[str]) -> list[str]:
    """Return up to five of `known` that `name` may have meant, best first."""
    return difflib.get_close_matches(name, list(dict.fromkeys(known)), n=5, cutoff=0.6)


def text_of(pin: Pin, key: str) -> str:
    """Return a string of the pin. Raises UserError where it has none."""
    value = pin.get(key)
    if not isinstance(value, str):
        raise UserError(
            f"the pin {dict(pin)} has no text under '{key}'. Restore the file that has it"
        )
    return value


def optional_text(pin: Pin, key: str) -> str | None:
    """Return a string of the pin, or None where the origin did not know it."""
    return None if pin.get(key) is None else text_of(pin, key)
