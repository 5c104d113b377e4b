# SPDX-License-Identifier: Apache-2.0
"""Link a launcher, bundles and a program's own files into one executable PAR."""

from __future__ import annotations

import ast
import marshal
import mmap
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

from tools.par.compiler.bundle import (
    BUNDLE_SECTIONS,
    BundleBuilder,
    BundleError,
    BundleOptions,
    Index,
)
from tools.par.compiler.classify import extension_name, module_name
from tools.par.compiler.container import PAGE, ArchiveWriter, Entry, read_index
from tools.par.compiler.container import seal as seal_file
from tools.par.compiler.launcher_seal import NO_DOORS, find_seal, seal_record

# Names that a program's top-level modules must not have.
RESERVED = sys.stdlib_module_names | {"_par", "_par_boot", "_par_importer", "par_runtime"}


def link(
    output: Path,
    *,
    launcher: Path,
    bundles: list[Path],
    files: list[tuple[str, str]],
    settings: dict[str, object],
    info: dict[str, Any],
    doors: bool = True,
) -> int:
    """Write the program to `output` atomically, and return its size in bytes.

    files: the program's own files as (path under the import root, path on disk).
    doors: whether the program obeys the PAR_* environment variables.
    """
    partial = output.with_name(f"{output.name}.{os.getpid()}.partial")
    try:
        with partial.open("w+b") as stream:
            program = launcher.read_bytes()
            seal = find_seal(program, launcher)
            stream.write(program)
            stream.write(bytes(-len(program) % PAGE))
            writer = ArchiveWriter(stream)
            index = Index(info=dict(info))
            parts = [("launcher", 0)]
            for path in bundles:
                first = len(index.bundles)
                start = _add_bundle_file(writer, index, path)
                parts.append((index.bundles[first][0], start))
            _refuse_shadows(files)
            own = Index(bundles=list(index.bundles))
            builder = BundleBuilder(writer, own, BundleOptions(name="program", strict=True))
            libraries, main = _split(sorted(files), str(settings["main"]))
            writer.align()
            parts.append(("libraries", writer.position))
            builder.add(libraries)
            index.write_sections(writer)
            writer.align()
            # Most edits change only the part that follows: the program's own package and the index.
            parts.append(("program", writer.position))
            builder.add(main)
            builder.finish()
            _merge(index, own, shift=0, first=0, source="the program's own files")
            _check(index)
            settings["early_imports"] = _early_imports(str(settings["main"]), files)
            size = index.write(writer, settings, tuple(parts))
            stream.seek(seal)
            stream.write(seal_record(size, flags=0 if doors else NO_DOORS))
            seal_file(stream)
            stream.flush()
            os.fsync(stream.fileno())
        partial.chmod(0o755)
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)
    return size


def _split(
    files: list[tuple[str, str]], main: str
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Split files into those outside and those inside the main module's top-level directory."""
    package, dot, _ = main.partition(".")
    own = [row for row in files if row[0].startswith(f"{package}/")] if dot else []
    own = own or [row for row in files if "/" not in row[0]]
    inside = set(own)
    return [row for row in files if row not in inside], own


def _refuse_shadows(files: list[tuple[str, str]]) -> None:
    """Raise BundleError if a program's module has the name of a standard-library or PAR module."""
    for path, disk in files:
        name = extension_name(path) if path.endswith(".so") else None
        if path.endswith(".py"):
            name = module_name(path)
        if name is not None and name.partition(".")[0] in RESERVED:
            raise BundleError(
                f"{disk}: as module {name} it would hide the standard library's "
                f"{name.partition('.')[0]}, or be hidden by it; rename it or move it into a package"
            )


def _add_bundle_file(writer: ArchiveWriter, index: Index, path: Path) -> int:
    """Copy a finished bundle's entries unchanged, and merge its index, adjusting the offsets.

    Return the offset of the copy in the archive.
    """
    with path.open("rb") as stream:
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        with zipfile.ZipFile(stream) as archive:
            listed = archive.infolist()
    view = memoryview(mapped)
    tables, end = read_index(view, path)
    entries = [
        Entry(i.filename, i.compress_type, i.CRC, i.compress_size, i.file_size,
              i.external_attr >> 16 & 0o777, i.header_offset)
        for i in listed
        if i.header_offset < end
    ]  # fmt: skip
    shift = writer.copy(view[:end], entries)
    other = Index(
        bundles=tables["bundles"],
        modules=tables["modules"],
        extensions=tables["extensions"],
        namespaces=tables["namespaces"],
        distributions=tables["distributions"],
        environment=tables["environment"],
        **{kind: _sections(view, tables, kind) for kind in BUNDLE_SECTIONS},
        info=_sections(view, tables, "info")[0],
    )
    _merge(index, other, shift=shift, first=len(index.bundles), source=str(path))
    return shift


def _sections(view: memoryview, index: dict[str, Any], kind: str) -> list[Any]:
    return [
        marshal.loads(view[offset : offset + size]) for offset, size, _ in index["sections"][kind]
    ]


def _merge(index: Index, other: Index, *, shift: int, first: int, source: str) -> None:
    for name, (number, path, package, offset, size, digest, whole) in other.modules.items():
        row = (number + first, path, package, offset + shift, size, digest, whole)
        first_row = index.modules.setdefault(name, row)
        if first_row[5] != digest:
            raise BundleError(
                f"module {name} is in {index.bundles[first_row[0]][0]} and, with other code, in "
                f"{source}; remove one of them from deps"
            )
    for name, (number, where) in other.extensions.items():
        index.extensions.setdefault(name, (number + first, where))
    for name, (number, where, entry_points) in other.distributions.items():
        index.distributions.setdefault(name, (number + first, where, entry_points))
    for name, portions in other.namespaces.items():
        moved = tuple((number + first, where) for number, where in portions)
        index.namespaces[name] = (*index.namespaces.get(name, ()), *moved)
    for table in other.files:
        index.files.append(
            {p: (method, offset + shift, *rest) for p, (method, offset, *rest) in table.items()}
        )
    for table in other.natives:
        index.natives.append(
            {p: (mode, offset + shift, *rest) for p, (mode, offset, *rest) in table.items()}
        )
    index.developer.extend(other.developer)
    index.bundles.extend(other.bundles[len(index.bundles) - first :])
    for name, value in other.info.items():
        index.info.setdefault(name, value)
    for name, value in other.environment.items():
        other_value = index.environment.setdefault(name, value)
        if other_value != value:
            raise BundleError(
                f"{source} sets {name}={value} in the environment, and another bundle "
                f"{name}={other_value}; give both rules the same value"
            )


def _check(index: Index) -> None:
    for name in [n for n in index.namespaces if n in index.modules]:
        # A bundle contains this package's __init__.py, so it is not a namespace package.
        del index.namespaces[name]


def _early_imports(main: str, files: list[tuple[str, str]]) -> tuple[str, ...]:
    """Return the modules that the main module imports before its first non-import statement."""
    main_path = main.replace(".", "/") + ".py"
    disk = next((d for path, d in files if path == main_path), None)
    if disk is None:
        return ()
    names = []
    for i, node in enumerate(ast.parse(Path(disk).read_bytes()).body):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module != "__future__":
                names.append(node.module)
        elif not (i == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            break
    return tuple(names)
