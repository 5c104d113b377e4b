# SPDX-License-Identifier: Apache-2.0
"""Select the filesystem for a path: the local one, a registered one, or one of fsspec's."""

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

# Packages that implement fsspec's schemes. If one is missing, the error message names it.
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
# On these filesystems, readers can see a partial upload, so gfile uploads a file under another name
# and then renames it.
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
    """Register a filesystem for paths `scheme://...` in gfile and in every API that uses gfile.

    `filesystem` is an `fsspec.AbstractFileSystem`, a subclass of it, a
    `torch_google.gfile.Filesystem`, or a function that creates one when the scheme is first used. A
    class is also registered with fsspec, and so with every library that opens paths through fsspec,
    such as tensorboard. If readers can see a file while it is being written, set `rename_commits`:
    gfile then writes under a temporary name and renames the complete file.

    Raises ValueError for an invalid scheme, or for an existing one unless `overwrite` is set.
    """
    if not _NAME.fullmatch(scheme):
        raise ValueError(f"register_scheme('{scheme}'): give lower-case letters, as in 'memory'")
    with _lock:
        if scheme in _registered and not overwrite:
            raise ValueError(f"register_scheme('{scheme}'): it is registered; pass overwrite=True")
        make = filesystem if callable(filesystem) else lambda: filesystem
        _registered[scheme] = _Registered(_memoize(make), retry, rename_commits)
    if isinstance(filesystem, type):
        from fsspec import AbstractFileSystem, register_implementation

        if issubclass(filesystem, AbstractFileSystem):
            register_implementation(scheme, filesystem, clobber=True)


def filesystem_of(path: PathLike) -> Filesystem:
    """Return the filesystem for a path.

    Raises a ModuleNotFoundError naming the package that a scheme needs, or ValueError for an
    unknown scheme.
    """
    location = locate(path)
    if not location.scheme:
        return _local
    registered = _registered.get(location.scheme)
    if registered is None:
        return _of_fsspec(location)
    system = registered.make()
    if isinstance(system, Filesystem):
        return system
    return StoreFilesystem(
        system,
        lambda path: _inside(system, locate(path)),
        retry=registered.retry,
        rename_commits=registered.rename_commits,
    )


def _of_fsspec(location: Location) -> Filesystem:
    package = PACKAGES.get(location.scheme)
    try:
        system, target = _system_of(location)
    except ImportError as error:
        needed = package or error.name or location.scheme
        raise ModuleNotFoundError(
            f"{location}: {location.scheme}:// needs the package {needed}, which is not installed "
            f"({error}); pip install {needed}, or add @pypi//{needed.replace('_', '-')} to the deps "
            "of the PAR",
            name=needed,
        ) from error
    except ValueError as error:
        raise ValueError(
            f"{location}: unknown scheme {location.scheme}:// ({error}); correct the scheme, or "
            "register a filesystem for it with gfile.register_scheme"
        ) from error

    def inside(path: str) -> str:
        member = locate(path)
        if member.chain:  # the filesystem is an archive, and the path names a member
            return member.inner or target
        if member.scheme in ("http", "https") and "/" not in member.inner:
            return f"{path}/"
        return _stripped(system, member)

    return StoreFilesystem(
        system,
        inside,
        rename_commits=location.scheme in _RENAME_COMMITS,
        read_only=location.scheme in _READ_ONLY,
    )


def _system_of(location: Location) -> tuple[Any, str]:
    """Return fsspec's filesystem for a path, and the name to use if the path contains none.

    A chain with an empty inner path contains no name, such as `simplecache::memory://a/b`. For any
    other path, the returned name is "".
    """
    import fsspec
    from fsspec.core import url_to_fs

    if location.chain:
        system, target = url_to_fs(str(location))
        return system, "" if location.inner else str(target)
    # Do not use url_to_fs here: it would split a name at `::`.
    filesystem_class = fsspec.get_filesystem_class(location.scheme)
    return filesystem_class(**filesystem_class._get_kwargs_from_urls(str(location))), ""


def _inside(system: Any, location: Location) -> str:
    # Registered filesystems do not support chains, so `::` is part of a name.
    inner = f"{location.inner}::{location.chain}" if location.chain else location.inner
    own = system.protocol
    is_own_scheme = location.scheme in ((own,) if isinstance(own, str) else own)
    return _stripped(system, Location(location.scheme if is_own_scheme else "", inner))


def _stripped(system: Any, location: Location) -> str:
    """Return a path in the form that fsspec's filesystem uses internally.

    The filesystem's `_strip_protocol` may parse a path as a URL and drop `?...` from a name, so
    pass it only the first component of such a path, which contains the host or the bucket.
    """
    pages = location.scheme in ("http", "https")
    if pages or not any(mark in location.inner for mark in ("?", "#", "::", "://")):
        return str(system._strip_protocol(str(location)))
    host, slash, rest = location.inner.partition("/")
    if not slash:
        host, rest = "", host
    root = str(system._strip_protocol(str(Location(location.scheme, host + slash)))).rstrip("/")
    rest = rest.rstrip("/")
    return f"{root}/{rest}" if root or system.root_marker else rest


def _memoize(make: Callable[[], Any]) -> Callable[[], Any]:
    instances: list[Any] = []
    lock = threading.Lock()
    owner = os.getpid()

    def get() -> Any:
        nonlocal owner
        with lock:
            # An asynchronous client runs in a thread, which does not exist in a forked process.
            if instances and owner != os.getpid() and getattr(instances[0], "async_impl", False):
                instances.clear()
            if not instances:
                instances.append(make())
                owner = os.getpid()
            return instances[0]

    return get
