# SPDX-License-Identifier: Apache-2.0
"""What a program may set about files, for the whole process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from torch_google.gfile.retry import Retry

_NETWORK = "TORCH_GOOGLE_NETWORK"
_YES = ("1", "true", "yes")


def _network() -> bool:
    return os.environ.get(_NETWORK, "").lower() in _YES


@dataclass(frozen=True)
class Settings:
    """`configure` changes them.

    retry: how often and how soon stores are asked again.
    sync: whether a file of this machine is on the disk (fsync) before it takes its name.
    stage_mapped: whether torch.load(mmap=True) copies a file of a store to this machine first, or
        refuses it.
    network: whether torch.hub may download from http, https and ftp; TORCH_GOOGLE_NETWORK=1 says so too.
    """

    retry: Retry = field(default_factory=Retry)
    sync: bool = True
    stage_mapped: bool = False
    network: bool = field(default_factory=_network)


_now: Settings | None = None


def settings() -> Settings:
    """Return the settings of this process."""
    global _now
    if _now is None:
        _now = Settings()
    return _now


def configure(**changes: object) -> None:
    """Change settings by name, from now on. Raises TypeError for a name that is none."""
    global _now
    _now = replace(settings(), **changes)  # type: ignore[arg-type]


@contextmanager
def configured(**changes: object) -> Iterator[Settings]:
    """Change settings by name within a `with`, for every thread."""
    global _now
    before = settings()
    configure(**changes)
    try:
        yield settings()
    finally:
        _now = before
