# SPDX-License-Identifier: Apache-2.0
"""Read the files of an archive that are not compiled modules: sources, data and libraries.

The index has two tables per bundle, which are read on first use:
  files:   path -> (method, offset, packed size, size, XXH64 of the packed bytes, mode, developer)
  natives: path -> (mode, offset, size, ((packed, size), ...), soname, needed,
                   N of the newest GLIBCXX_3.4.N that it defines)
Paths are relative to the bundle's root. Methods are zip's: 0 stored, 8 deflate, 93 zstd.
`developer` is True for files, such as headers, that only compilers and linkers read. `needed` lists
sonames.
"""

from __future__ import annotations

import functools
import os
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import _par

if TYPE_CHECKING:
    from _par_importer import Bundle, Runtime

STORED, DEFLATE, ZSTD = 0, 8, 93
_DEFLATE_LIMIT = 1100  # an upper bound on unpacked bytes per packed byte


def table(bundle: Bundle) -> dict[str, tuple[Any, ...]]:
    return bundle.runtime.section("files", bundle)


def natives(bundle: Bundle) -> dict[str, tuple[Any, ...]]:
    return bundle.runtime.section("natives", bundle)


@functools.cache
def library_owners(runtime: Runtime) -> dict[str, tuple[Bundle, str]]:
    """Map each library's soname to its bundle and path. Omit packed system libraries."""
    owners: dict[str, tuple[Bundle, str]] = {}
    for bundle in runtime.bundles:
        if bundle.name == "cc_runtime":
            continue
        for relative, row in natives(bundle).items():
            if row[4]:
                owners.setdefault(row[4], (bundle, relative))
    return owners


def read(bundle: Bundle, relative: str) -> bytes:
    """Return a file's contents. Raises FileNotFoundError if the bundle does not have the file."""
    row = table(bundle).get(relative)
    if row is not None:
        return unpacked(bundle, relative, row)
    library = natives(bundle).get(relative)
    if library is not None:
        _, offset, size, frames, *_ = library
        packed = sum(c for c, _ in frames)
        whole = bundle.archive.slice(offset, packed)
        try:
            return _par.decompress(whole, size)
        except ValueError:
            raise _par.ArchiveError(
                f"{bundle.runtime.program}: {relative} is damaged; build or copy the file again"
            ) from None
    raise FileNotFoundError(2, "No such file in the archive", f"{bundle.virtual_root}/{relative}")


def unpacked(bundle: Bundle, relative: str, row: tuple[Any, ...]) -> bytes:
    method, offset, packed, size, digest, *_ = row
    data = bundle.archive.read(offset, packed, digest, relative)
    if method == DEFLATE:
        try:
            data = zlib.decompress(
                data, wbits=-15, bufsize=min(size, len(data) * _DEFLATE_LIMIT) or 1
            )
        except zlib.error:
            size = -1
    if len(data) != size:
        raise _par.ArchiveError(
            f"{bundle.runtime.program}: {relative} is damaged; build or copy the file again"
        )
    return data


def on_disk(bundle: Bundle, group: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield (path, table row) for each file, except libraries, to unpack for `group`.

    `group` is "lib" or "dev"; see unpack.bundle_directory.
    """
    for name, row in table(bundle).items():
        if not bundle.zip_safe or (group == "dev" and row[6]):
            yield name, row


def is_developer(bundle: Bundle, relative: str) -> bool:
    row = table(bundle).get(relative)
    return row is not None and bool(row[6])


@functools.cache
def developer_directories(bundle: Bundle) -> frozenset[str]:
    """Return all directories that contain developer files, such as headers, at any depth."""
    return frozenset(bundle.runtime.section("developer", bundle))


def iter_modules(runtime: Runtime, directory: str, prefix: str) -> Iterator[tuple[str, bool]]:
    """Yield (name, is package) for each module in a directory, as pkgutil.iter_modules does."""
    packages: dict[str, bool] = {}
    for modules in (runtime.modules, runtime.extensions):
        for name, row in modules.items():
            bundle = runtime.bundles[row[0]]
            root = bundle.virtual_root if bundle.zip_safe or bundle.on_disk else bundle.root
            parent = os.path.dirname(f"{root}/{row[1]}")
            package = len(row) > 2 and row[2]
            if package:
                parent = os.path.dirname(parent)
            if parent == directory:
                packages[name.rpartition(".")[2]] = bool(package)
    for name in sorted(packages):
        yield prefix + name, packages[name]


def iter_directory(bundle: Bundle, relative: str) -> Iterator[tuple[str, bool]]:
    """Yield (name, is directory) for each entry of the directory `relative` ("" is the root)."""
    start = f"{relative}/" if relative else ""
    seen = set()
    for paths in (table(bundle), natives(bundle)):
        for path in paths:
            if path.startswith(start):
                name, slash, _ = path[len(start) :].partition("/")
                if name not in seen:
                    seen.add(name)
                    yield name, bool(slash)
