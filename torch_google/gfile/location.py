# SPDX-License-Identifier: Apache-2.0
"""Parse a path into a scheme, a path within the scheme's filesystem, and a chain.

`memory://a/b` has the scheme `memory` and the inner path `a/b`. `zip://a/b::/tmp/x.zip` is the
member `a/b` of the archive `/tmp/x.zip`, whose path may also have a scheme. fsspec calls such a
path a chain. Everything else is a local path, including `file://` and `model::v1.pt`, because `::`
starts a chain only after a scheme whose files come from another filesystem, or before a complete
URL.
"""

from __future__ import annotations

import os
import posixpath
import re
from dataclasses import dataclass, replace

PathLike = str | os.PathLike[str]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)(://|::)")
_LOCAL_SCHEMES = ("file", "local")
# fsspec filesystems that read their files from another filesystem.
_CHAINING = frozenset(
    {
        "blockcache",
        "cached",
        "dir",
        "filecache",
        "libarchive",
        "reference",
        "simplecache",
        "tar",
        "zip",
    }
)


@dataclass(frozen=True)
class Location:
    """A parsed path; `str()` restores the path. The scheme of a local path is empty."""

    scheme: str
    inner: str
    chain: str = ""

    def __str__(self) -> str:
        url = f"{self.scheme}://{self.inner}" if self.scheme else self.inner
        return f"{url}::{self.chain}" if self.chain else url

    def join(self, *names: str) -> Location:
        """Return the path with names appended. An absolute name replaces all of `inner`."""
        return replace(self, inner=posixpath.join(self.inner, *names))

    @property
    def name(self) -> str:
        """The last component; empty at the root."""
        return self.inner.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> Location:
        """The containing directory; a root is its own parent."""
        head, slash, _ = self.inner.rstrip("/").rpartition("/")
        return replace(self, inner=head or (slash if not self.scheme else ""))


def locate(path: PathLike) -> Location:
    """Parse a path. Raises TypeError unless it is a str or an os.PathLike of str."""
    text: object = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"a path must be a str, not {text!r}; decode it with os.fsdecode")
    match = _SCHEME.match(text)
    if match is None:
        return Location("", text)
    scheme, mark, rest = match[1].lower(), match[2], text[match.end() :]
    if mark == "::":
        return Location(scheme, "", rest) if _is_chain(scheme, rest) else Location("", text)
    if scheme in _LOCAL_SCHEMES:
        return Location("", rest)
    inner, chained, chain = rest.partition("::")
    if chained and (scheme in _CHAINING or _is_url(chain)):
        return Location(scheme, inner, chain)
    return Location(scheme, rest)


def is_remote(path: object) -> bool:
    """Return whether a path has a scheme that `open()` cannot open.

    The result is False for local paths, including `file://`, and for anything that is not a path.
    """
    if not isinstance(path, (str, os.PathLike)):
        return False
    text = os.fspath(path)
    return not isinstance(text, bytes) and locate(text).scheme != ""


def _is_chain(scheme: str, target: str) -> bool:
    """Return whether `scheme::target` is an fsspec chain rather than a file name."""
    if scheme in _CHAINING:
        return True
    if not _is_url(target):
        return False
    from fsspec import available_protocols

    return scheme in available_protocols()


def _is_url(text: str) -> bool:
    match = _SCHEME.match(text)
    return match is not None and match[2] == "://"
