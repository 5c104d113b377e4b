# SPDX-License-Identifier: Apache-2.0
"""Classify the files of a PAR by name and first bytes."""

from __future__ import annotations

import enum
import re
from pathlib import PurePosixPath

from tools.par.compiler import elf

EXTENSION = re.compile(r"(?P<stem>[^./]+)(\.cpython-311-x86_64-linux-gnu|\.abi3)?\.so$")
_OTHER_PYTHON = re.compile(r"\.(cpython-(?!311-)\d+[^.]*|pypy[^.]*|cp\d+[^.]*)\.so$")
# Wider than an identifier, because the standard library imports
# _sysconfigdata__linux_x86_64-linux-gnu.
_NAME = re.compile(r"[\w-]+")
# Compilers and linkers read these, so they must be files on disk, but only once code is compiled.
_DEVELOPER_SUFFIXES = frozenset(
    (".a", ".cmake", ".cuh", ".h", ".hpp", ".inl", ".ld", ".cu", ".cpp", ".cc")
)


class Kind(enum.Enum):
    MODULE = "module"  # Python source that compiles and can be imported by name
    NATIVE = "native"  # ELF: compressed in frames, unpacked to disk or memory
    DEVELOPER = "developer"  # headers, static libraries, linker scripts: unpacked on demand
    DATA = "data"
    DROP = "drop"  # useless in a program


def classify(path: str, head: bytes) -> Kind:
    """Return the kind of a file by its `path` (from the import root) and first bytes (`head`)."""
    pure = PurePosixPath(path)
    if pure.suffix in (".pyc", ".pyo") or "__pycache__" in pure.parts:
        return Kind.DROP
    if _OTHER_PYTHON.search(pure.name):
        return Kind.DROP
    if elf.is_elf(head):
        return Kind.NATIVE
    if pure.suffix == ".py" and module_name(path) is not None:
        return Kind.MODULE
    if pure.suffix in _DEVELOPER_SUFFIXES or "include" in pure.parts[:-1]:
        return Kind.DEVELOPER
    return Kind.DATA


def module_name(path: str) -> str | None:
    """Return "a.b" for `a/b.py`, "a" for `a/__init__.py`, or None if no import can name it."""
    parts = list(PurePosixPath(path).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    if not parts or not all(_NAME.fullmatch(part) for part in parts):
        return None
    return ".".join(parts)


def extension_name(path: str) -> str | None:
    """Return "a.b" for `a/b.cpython-311-x86_64-linux-gnu.so`, or None if it is not a module."""
    pure = PurePosixPath(path)
    match = EXTENSION.match(pure.name)
    if match is None:
        return None
    return module_name(str(pure.with_name(match["stem"] + ".py")))
