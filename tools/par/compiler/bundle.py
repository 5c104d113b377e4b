# SPDX-License-Identifier: Apache-2.0
"""Pack a directory or a list of files into a bundle: archive entries and an index of them."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import hashlib
import os
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any

import _par

from tools.par.compiler import elf, sources
from tools.par.compiler.classify import Kind, classify, extension_name, module_name
from tools.par.compiler.container import DEFLATE, STORED, ZSTD, ArchiveWriter

_FRAME = 16 << 20  # uncompressed bytes per frame; smaller frames compress worse
_LEVEL = 7  # level 9 takes 1.3 times as long and saves 2%; level 19 saves 7%
# GPU kernels are already compressed. For them, level 9 takes six times as long as this level and
# saves only 3%.
_KERNELS_LEVEL = 3
_HEAD = 32
# Every program contains its own copies of these system libraries, for hosts that lack them. See the
# runtime's machine_libraries.py.
_MACHINE_LIBRARIES = frozenset(("libgcc_s.so.1", "libstdc++.so.6", "libz.so.1"))
# The C library's files. Every host has them, so a bundle need not list them as dependencies.
_C_LIBRARY = frozenset(
    (
        "ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0",
        "libresolv.so.2", "librt.so.1", "libutil.so.1",
    )
)  # fmt: skip


BUNDLE_SECTIONS = ("files", "natives", "developer")

CompileAll = Callable[[list[sources.Source]], Iterator[sources.Compiled]]


class BundleError(Exception):
    """Raised if an input cannot be packed. The message contains the file's path and the remedy."""


@dataclasses.dataclass(frozen=True, slots=True)
class BundleOptions:
    """The settings of a bundle that come from its build rule's attributes.

    prefix: the bundle's directory in the archive, or "" for the import root.
    zip_safe: False if the modules open files next to __file__, so all files must be on disk.
    kernels: whether the libraries consist mostly of GPU kernels.
    strict: whether a syntax error in a source fails the build (true for a program's own code).
    cold: directories and files ("." for all) to store as compressed code, because few programs
        import them. Programs that do import them start a few percent slower.
    """

    name: str
    prefix: str = ""
    zip_safe: bool = True
    strict: bool = False
    cold: tuple[str, ...] = ()
    kernels: bool = False

    def is_cold(self, path: str) -> bool:
        return any(c in (".", path) or path.startswith(f"{c}/") for c in self.cold)


@dataclasses.dataclass
class Index:
    """The tables of an archive, which the runtime's files.py and _par_importer.py read."""

    bundles: list[tuple[str, str, bool, str, bool, tuple[str, ...]]] = dataclasses.field(
        default_factory=list
    )
    modules: dict[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    extensions: dict[str, tuple[int, str]] = dataclasses.field(default_factory=dict)
    namespaces: dict[str, tuple[tuple[int, str], ...]] = dataclasses.field(default_factory=dict)
    distributions: dict[str, tuple[int, str, str]] = dataclasses.field(default_factory=dict)
    files: list[dict[str, tuple[Any, ...]]] = dataclasses.field(default_factory=list)
    natives: list[dict[str, tuple[Any, ...]]] = dataclasses.field(default_factory=list)
    developer: list[tuple[str, ...]] = dataclasses.field(default_factory=list)
    info: dict[str, Any] = dataclasses.field(default_factory=dict)
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    _sections: dict[str, list[tuple[int, int, int]]] = dataclasses.field(
        default_factory=dict, init=False
    )

    def write_sections(self, writer: ArchiveWriter) -> None:
        """Write the sections that the archive does not contain yet.

        Each bundle has its own sections, so a starting program reads only those of the bundles it
        uses.
        """
        for kind in BUNDLE_SECTIONS:
            written = self._sections.setdefault(kind, [])
            for i, value in list(enumerate(getattr(self, kind)))[len(written) :]:
                written.append(writer.add_section(f"{kind}/{i}", value))

    def write(
        self,
        writer: ArchiveWriter,
        settings: dict[str, object],
        parts: tuple[tuple[str, int], ...] = (),
    ) -> int:
        """Write this index and the footer to the archive. Return the file's size.

        parts: name and offset of each part into which the file can be cut; see parts.py.
        """
        self.write_sections(writer)
        sections: dict[str, Any] = dict(self._sections)
        sections["info"] = [writer.add_section("info", self.info)]
        return writer.finish(
            {
                "bundles": self.bundles,
                "modules": self.modules,
                "extensions": self.extensions,
                "namespaces": self.namespaces,
                "distributions": self.distributions,
                "environment": self.environment,
                "sections": sections,
                "settings": settings,
                "parts": parts,
            }
        )


def walk(root: str) -> list[tuple[str, str]]:
    """Return (relative path, path on disk) for each file under a directory, sorted."""
    files = []
    for base, directories, names in os.walk(root, followlinks=True):
        directories.sort()
        for name in names:
            disk = os.path.join(base, name)
            files.append((os.path.relpath(disk, root), disk))
    return sorted(files)


def add_bundle(
    writer: ArchiveWriter,
    index: Index,
    files: list[tuple[str, str]],
    options: BundleOptions,
    compile_all: CompileAll = sources.compile_all,
) -> None:
    """Add `files`, a sorted list of (path under the import root, path on disk), as a bundle."""
    builder = BundleBuilder(writer, index, options, compile_all)
    builder.add(files)
    builder.finish()


def _by_kind(files: list[tuple[str, str]]) -> dict[Kind, list[tuple[str, str]]]:
    groups: dict[Kind, list[tuple[str, str]]] = {kind: [] for kind in Kind}
    for path, disk in files:
        with open(disk, "rb") as stream:
            head = stream.read(_HEAD)
        groups[classify(path, head)].append((path, disk))
    return groups


class BundleBuilder:
    """A builder that adds one bundle to an archive, in one or more groups of files."""

    def __init__(
        self,
        writer: ArchiveWriter,
        index: Index,
        options: BundleOptions,
        compile_all: CompileAll = sources.compile_all,
    ) -> None:
        self._writer = writer
        self._compile_all = compile_all
        self._index = index
        self._options = options
        self._number = len(index.bundles)
        self._files: dict[str, tuple[Any, ...]] = {}
        self._natives: dict[str, tuple[Any, ...]] = {}
        self._stamp = hashlib.sha256(repr(options).encode())
        self._needed: set[str] = set()
        self._sonames: set[str] = set()
        self._packages: set[str] = set()

    def _name(self, path: str) -> str:
        prefix = self._options.prefix
        return f"{prefix}/{path}" if prefix else path

    def add(self, files: list[tuple[str, str]]) -> None:
        """Add files, sorted by path. Pass all modules of a package in the same call."""
        groups = _by_kind(files)
        self._add_modules(groups[Kind.MODULE])
        for path, disk in groups[Kind.DATA]:
            self._add_file(path, disk, developer=False)
        for path, disk in groups[Kind.DEVELOPER]:
            self._add_file(path, disk, developer=True)
        self._add_natives(groups[Kind.NATIVE])

    def _add_modules(self, files: list[tuple[str, str]]) -> None:
        cold = self._options.is_cold
        for done in self._compile_all([(path, disk, cold(path)) for path, disk in files]):
            self._put(done.path, done.deflated, DEFLATE, done.crc, done.size, 0o644, False)
            if done.pyc is not None:
                self._add_code(done)
            elif self._options.strict:
                raise BundleError(f"{done.problem}; fix the source")

    def _add_code(self, done: sources.Compiled) -> None:
        pure = PurePosixPath(done.path)
        entry = self._name(str(pure.parent / "__pycache__" / f"{pure.stem}.cpython-311.pyc"))
        assert done.pyc is not None
        if done.packed is None:
            code = done.pyc[sources.PYC_HEADER :]
            offset = self._writer.add_stored(entry, done.pyc) + sources.PYC_HEADER
            where = (offset, len(code), _par.hash(code), 0)
        else:
            crc, size = zlib.crc32(done.pyc), len(done.pyc)
            offset = self._writer.add(
                entry, done.packed, method=ZSTD, crc=crc, size=size, mode=0o644
            )
            where = (offset, len(done.packed), _par.hash(done.packed), size)
        name = module_name(done.path)
        assert name is not None
        package = pure.name == "__init__.py"
        # As with files on disk, a package takes precedence over an extension module, and both take
        # precedence over a source module. The extension may be in an earlier group of files.
        if package:
            self._index.extensions.pop(name, None)
        if package or not (name in self._index.modules or name in self._index.extensions):
            self._index.modules[name] = (self._number, done.path, package, *where)
        self._packages.add(name.rpartition(".")[0])

    def _add_file(self, path: str, disk: str, *, developer: bool) -> None:
        with open(disk, "rb") as stream:
            data = stream.read()
        mode = 0o755 if os.stat(disk).st_mode & stat.S_IXUSR else 0o644
        packed = sources.deflate(data)
        if not self._options.zip_safe or developer:
            self._add_to_stamp(path, mode, data)
        if len(packed) < len(data):
            self._put(path, packed, DEFLATE, zlib.crc32(data), len(data), mode, developer)
        else:
            self._put(path, data, STORED, zlib.crc32(data), len(data), mode, developer)
        parts = PurePosixPath(path).parts
        if len(parts) == 2 and parts[0].endswith(".dist-info") and parts[1] == "METADATA":
            name = parts[0].split("-")[0].replace(".", "_").replace("-", "_").lower()
            # The index contains the entry points, because many programs read the entry points of
            # all packages at startup.
            entry_points_file = os.path.join(os.path.dirname(disk), "entry_points.txt")
            entry_points = ""
            if os.path.exists(entry_points_file):
                with open(entry_points_file, encoding="utf-8") as text:
                    entry_points = text.read()
            self._index.distributions[name] = (self._number, parts[0], entry_points)

    def _put(
        self, path: str, data: bytes, method: int, crc: int, size: int, mode: int, developer: bool
    ) -> None:
        offset = self._writer.add(
            self._name(path), data, method=method, crc=crc, size=size, mode=mode
        )
        self._files[path] = (method, offset, len(data), size, _par.hash(data), mode, developer)

    def _add_natives(self, files: list[tuple[str, str]]) -> None:
        threads = len(os.sched_getaffinity(0))
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            for path, disk in files:
                with open(disk, "rb") as stream:
                    data = stream.read()
                self._add_native(path, data, os.stat(disk).st_mode, pool)

    def _add_native(
        self, path: str, data: bytes, mode: int, pool: concurrent.futures.Executor
    ) -> None:
        mode = 0o755 if mode & stat.S_IXUSR else 0o644
        view = memoryview(data)
        level = _KERNELS_LEVEL if self._options.kernels else _LEVEL
        pieces = [view[i : i + _FRAME] for i in range(0, len(data), _FRAME)]
        packed = list(pool.map(lambda piece: _par.compress(piece, level), pieces))
        offset = self._writer.add(
            self._name(path),
            b"".join(packed),
            method=ZSTD,
            crc=zlib.crc32(data),
            size=len(data),
            mode=mode,
        )
        frames = tuple((len(c), len(p)) for c, p in zip(packed, pieces, strict=True))
        dynamic = elf.read_dynamic(data)
        version = elf.glibcxx_version(data) if dynamic.soname == "libstdc++.so.6" else 0
        self._natives[path] = (
            mode, offset, len(data), frames, dynamic.soname, dynamic.needed, version,
        )  # fmt: skip
        self._needed.update(dynamic.needed)
        self._sonames.add(dynamic.soname)
        self._add_to_stamp(path, mode, data)
        name = extension_name(path)
        if name is not None and not self._is_package(name):
            self._index.modules.pop(name, None)
            self._index.extensions[name] = (self._number, path)
            self._packages.add(name.rpartition(".")[0])

    def _is_package(self, name: str) -> bool:
        row = self._index.modules.get(name)
        return row is not None and row[2]

    def _add_to_stamp(self, path: str, mode: int, data: bytes) -> None:
        """Hash a file that will be unpacked at run time, for the name of its cache directory."""
        self._stamp.update(f"{path}\0{mode:o}\0{len(data)}\0".encode())
        self._stamp.update(hashlib.sha256(data).digest())

    def finish(self) -> None:
        options = self._options
        others = self._needed - self._sonames - _C_LIBRARY
        self._index.bundles.append(
            (
                options.name, options.prefix, options.zip_safe, self._stamp.hexdigest()[:16],
                not _MACHINE_LIBRARIES.isdisjoint(others),
                tuple(sorted(others - _MACHINE_LIBRARIES)),
            )
        )  # fmt: skip
        self._index.files.append(self._files)
        self._index.natives.append(self._natives)
        self._index.developer.append(self._developer_directories())
        for package in self._namespaces():
            where = (self._number, package.replace(".", "/"))
            portions = self._index.namespaces.get(package, ())
            self._index.namespaces[package] = (*portions, where)

    def _developer_directories(self) -> tuple[str, ...]:
        """Return all directories that contain developer files, such as headers, at any depth."""
        directories: set[str] = set()
        for path, row in self._files.items():
            if row[6]:
                directories.update(str(parent) for parent in PurePosixPath(path).parents)
        return tuple(sorted(directories - {"."}))

    def _namespaces(self) -> list[str]:
        """Return the packages that have modules in this bundle, but no __init__.py."""
        namespaces = set()
        for package in self._packages:
            while package and package not in namespaces:
                row = self._index.modules.get(package)
                if row is None or row[0] != self._number:
                    namespaces.add(package)
                package = package.rpartition(".")[0]
        return sorted(namespaces)
