# SPDX-License-Identifier: Apache-2.0
"""Classify the files of a PAR by their names and first bytes."""

from __future__ import annotations

import enum
import re
from pathlib import PurePosixPath

from tools.par.compiler import elf

EXTENSION = re.compile(r"(?P<stem>[^./]+)(\.cpython-311-x86_64-linux-gnu|\.abi3)?\.so$")
_OTHER_PYTHON = re.compile(r"\.(cpython-(?!311-)\d+[^.]*|pypy[^.]*|cp\d+[^.]*)\.so$")
# A module's name may contain hyphens, because the standard library imports
# _sysconfigdata__linux_x86_64-linux-gnu.
_NAME = re.compile(r"[\w-]+")
# Files that compilers and linkers read from disk. They are unpacked only when code is compiled.
_DEVELOPER_SUFFIXES = frozenset(
    (".a", ".cmake", ".cuh", ".h", ".hpp", ".inl", ".ld", ".cu", ".cpp", ".cc")
)


class Kind(enum.Enum):
    MODULE = "module"  # Python source that can be imported by name
    NATIVE = "native"  # ELF: compressed in frames, unpacked to disk or memory
    DEVELOPER = "developer"  # headers, static libraries, linker scripts: unpacked on demand
    DATA = "data"
    DROP = "drop"  # not packed, because a program cannot use it


def classify(path: str, head: bytes) -> Kind:
    """Classify a file by its `path` under the import root and its first bytes, `head`."""
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
    """Return "a.b" for `a/b.py`, "a" for `a/__init__.py`, or None if it cannot be imported."""
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
