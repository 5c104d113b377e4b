# SPDX-License-Identifier: Apache-2.0
"""Which filesystem keeps a path: this machine, one registered here, or one that fsspec knows."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch_google.gfile.filesystem import Filesystem
from torch_google.gfile.local import LocalFilesystem
from torch_google.gfile.location import Location, PathLike, locate
from torch_google.gfile.retry import Retry
from torch_google.gfile.store import StoreFilesystem

# What must be installed for a scheme that fsspec knows by name only.
PACKAGES = {
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
    "gcs": "gcsfs",
    "gs": "gcsfs",
    "hdfs": "pyarrow",
    "hf": "huggingface_hub",
    "http": "aiohttp",
    "https": "aiohttp",
    "s3": "s3fs",
    "s3a": "s3fs",
    "sftp": "paramiko",
    "smb": "smbprotocol",
    "ssh": "paramiko",
    "webhdfs": "requests",
}
_READ_ONLY = frozenset({"blockcache", "data", "http", "https", "libarchive", "tar", "zip"})
# Elsewhere an upload appears whole; here it grows in sight, and a rename makes it whole.
_RENAME_COMMITS = frozenset({"arrow_hdfs", "ftp", "hdfs", "sftp", "smb", "ssh", "webhdfs"})
_NAME = re.compile(r"[a-z][a-z0-9+.-]*")

_lock = threading.Lock()
_registered: dict[str, _Registered] = {}
_local = LocalFilesystem()


@dataclass(frozen=True)
class _Registered:
    make: Callable[[], Any]
    retry: Retry | None
    rename_commits: bool


def register_scheme(
    scheme: str,
    filesystem: object,
    *,
    retry: Retry | None = None,
    rename_commits: bool = False,
    overwrite: bool = False,
) -> None:
    """Let `scheme://...` be kept by a filesystem, for everything that takes a path.

    `filesystem` is an `fsspec.AbstractFileSystem`, a class of them, a `Filesystem` of this package, or a
    function that makes one when the scheme is first used. A class is made known to fsspec too, and so
    to whatever opens paths by it (tensorboard). `rename_commits` is for those where a file being
    written can be seen: it is written aside then, and renamed.

    Raises ValueError for a name that is no scheme, or one that is taken, unless `overwrite`.
    """
    if not _NAME.fullmatch(scheme):
        raise ValueError(f"register_scheme('{scheme}'): give lower-case letters, as in 'memory'")
    with _lock:
        if scheme in _registered and not overwrite:
            raise ValueError(f"register_scheme('{scheme}'): it is registered; say overwrite=True")
        make = filesystem if callable(filesystem) else lambda: filesystem
        _registered[scheme] = _Registered(_once(make), retry, rename_commits)
    if isinstance(filesystem, type):
        from fsspec import AbstractFileSystem, register_implementation

        if issubclass(filesystem, AbstractFileSystem):
            register_implementation(scheme, filesystem, clobber=True)


def filesystem_of(path: PathLike) -> Filesystem:
    """Return what keeps a path.

    Raises ModuleNotFoundError that names the package which the scheme needs, ValueError for a scheme
    that nobody knows.
    """
    place = locate(path)
    if not place.scheme:
        return _local
    registered = _registered.get(place.scheme)
    if registered is None:
        return _of_fsspec(place)
    made = registered.make()
    if isinstance(made, Filesystem):
        return made
    return StoreFilesystem(
        made,
        lambda path: _inside(made, locate(path)),
        retry=registered.retry,
        rename_commits=registered.rename_commits,
    )


def _of_fsspec(place: Location) -> Filesystem:
    package = PACKAGES.get(place.scheme)
    try:
        system, target = _system_of(place)
    except ImportError as error:
        needed = package or error.name or place.scheme
        raise ModuleNotFoundError(
            f"{place}: {place.scheme}:// needs the package {needed}, which is not here ({error}); "
            f"pip install {needed}, or add @pypi//{needed.replace('_', '-')} to the deps of the PAR",
            name=needed,
        ) from error
    except ValueError as error:
        raise ValueError(
            f"{place}: unknown scheme {place.scheme}:// ({error}); correct the scheme, or give it a "
            "filesystem with gfile.register_scheme"
        ) from error

    def inside(path: str) -> str:
        asked = locate(path)
        if asked.chain:  # the filesystem is one archive, and a path is a member's name
            return asked.inner or target
        if asked.scheme in ("http", "https") and "/" not in asked.inner:
            return f"{path}/"
        return _stripped(system, asked)

    return StoreFilesystem(
        system,
        inside,
        rename_commits=place.scheme in _RENAME_COMMITS,
        read_only=place.scheme in _READ_ONLY,
    )


def _system_of(place: Location) -> tuple[Any, str]:
    """Return fsspec's filesystem of a path, and its name for the path that ends a chain."""
    import fsspec
    from fsspec.core import url_to_fs

    if place.chain:
        system, target = url_to_fs(str(place))
        return system, "" if place.inner else str(target)
    # url_to_fs would split a name at `::`.
    kind = fsspec.get_filesystem_class(place.scheme)
    return kind(**kind._get_kwargs_from_urls(str(place))), ""


def _inside(system: Any, place: Location) -> str:
    # A filesystem that is registered is its own, so what looks like a chain is part of a name.
    inner = f"{place.inner}::{place.chain}" if place.chain else place.inner
    own = system.protocol
    known = place.scheme in ((own,) if isinstance(own, str) else own)
    return _stripped(system, Location(place.scheme if known else "", inner))


def _stripped(system: Any, place: Location) -> str:
    """Return a filesystem's own name for a path.

    Some filesystems parse a path as a URL, and drop `?...` from a name. They are given the first
    component only, which has the host or the bucket.
    """
    pages = place.scheme in ("http", "https")
    if pages or not any(mark in place.inner for mark in ("?", "#", "::", "://")):
        return str(system._strip_protocol(str(place)))
    host, slash, rest = place.inner.partition("/")
    if not slash:
        host, rest = "", host
    root = str(system._strip_protocol(str(Location(place.scheme, host + slash)))).rstrip("/")
    rest = rest.rstrip("/")
    return f"{root}/{rest}" if root or system.root_marker else rest


def _once(make: Callable[[], Any]) -> Callable[[], Any]:
    made: list[Any] = []
    lock = threading.Lock()
    owner = os.getpid()

    def get() -> Any:
        nonlocal owner
        with lock:
            # What talks to a server by a thread of its own has lost it in a forked process.
            if made and owner != os.getpid() and getattr(made[0], "async_impl", False):
                made.clear()
            if not made:
                made.append(make())
                owner = os.getpid()
            return made[0]

    return get
