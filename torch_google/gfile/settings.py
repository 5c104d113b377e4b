# SPDX-License-Identifier: Apache-2.0
"""gfile's settings for the whole process."""

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
    """The settings; `configure` changes them.

    retry: the policy for retrying requests to a store.
    sync: whether to fsync a local file before renaming it to its final name.
    stage_mapped: whether torch.load(mmap=True) may first copy a file from a store to this machine;
    otherwise, it raises an error.
    network: whether torch.hub may download from http, https and ftp. The default is false, unless
    TORCH_GOOGLE_NETWORK=1 is set.
    """

    retry: Retry = field(default_factory=Retry)
    sync: bool = True
    stage_mapped: bool = False
    network: bool = field(default_factory=_network)


_current: Settings | None = None


def settings() -> Settings:
    """Return the settings of this process."""
    global _current
    if _current is None:
        _current = Settings()
    return _current


def configure(**changes: object) -> None:
    """Change settings by name. Raises TypeError for an unknown name."""
    global _current
    _current = replace(settings(), **changes)  # type: ignore[arg-type]


@contextmanager
def configured(**changes: object) -> Iterator[Settings]:
    """Change settings by name for the duration of a `with` block, in all threads."""
    global _current
    before = settings()
    configure(**changes)
    try:
        yield settings()
    finally:
        _current = before
