# SPDX-License-Identifier: Apache-2.0
"""Read a wheel's licence from its files, and find the modules that open files by path."""

from __future__ import annotations

import ast
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from third_party.pypi.package_info import parse_package_info

# Directories and files with code that programs never run.
_NOT_RUN = {"tests", "test", "testing", "benchmarks", "setup.py", "conftest.py"}
# Functions that only print a module's path or convert it to a string.
_SHOWING = {"print", "repr", "str", "warn", "warn_explicit"}


@dataclass(frozen=True)
class WheelFacts:
    """The properties of a wheel that add.py needs.

    `licence` is an SPDX expression, or "" if the metadata has none. `by_path` lists the modules
    that compute paths from their own `__file__`, or pass a folder to `as_file`.
    """

    licence: str
    by_path: tuple[str, ...]


def read_facts(wheel: Path) -> WheelFacts:
    """Read the properties of a wheel. Raises a zipfile.BadZipFile if the wheel is damaged."""
    with zipfile.ZipFile(wheel) as archive:
        names = sorted(archive.namelist())
        metadata = [name for name in names if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
        licence = parse_package_info(archive.read(metadata[0])).licence if metadata else ""
        by_path = [
            name
            for name in names
            if name.endswith(".py")
            and _NOT_RUN.isdisjoint(PurePosixPath(name).parts)
            and opens_by_path(archive.read(name))
        ]
    return WheelFacts(licence, tuple(by_path))


def opens_by_path(source: bytes) -> bool:
    """Return whether a module uses its own path, or may pass a folder to `as_file`."""
    return uses_own_path(source) or unpacks_folder(source)


def unpacks_folder(source: bytes) -> bool:
    """Return whether a module may pass a folder to `importlib.resources.as_file`.

    In a PAR, Python 3.11's `as_file` copies a file out of the archive, but raises
    IsADirectoryError for a folder. A call whose argument ends in a literal file name with a
    suffix, such as `files("a") / "b.pem"`, does not count. Neither do methods called `as_file`
    in modules that do not use importlib.resources.
    """
    if b"as_file" not in source or not re.search(rb"importlib[._]|from importlib", source):
        return False
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return True  # The module is for another Python version, so it may unpack a folder.
    return any(
        isinstance(node, ast.Call)
        and _name(node.func) == "as_file"
        and bool(node.args)
        and not _ends_in_file_name(node.args[0])
        for node in ast.walk(tree)
    )


def uses_own_path(source: bytes) -> bool:
    """Return whether a module computes a path from its `__file__`.

    Code that only prints `__file__` or assigns it does not count. The result is True for some
    modules that never open the path. Such a false positive costs disk space, but does not break a
    program.
    """
    if b"__file__" not in source:
        return False
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return True  # The module is for another Python version, so it may use its path.
    shown = {
        id(name)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and _name(call.func) in _SHOWING
        for name in ast.walk(call)
    }
    assigned = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Assign)}
    return any(
        isinstance(node, ast.Name)
        and node.id == "__file__"
        and isinstance(node.ctx, ast.Load)
        and id(node) not in shown
        and id(node) not in assigned
        for node in ast.walk(tree)
    )


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _ends_in_file_name(path: ast.expr) -> bool:
    """Return whether a path ends in a literal file name with a suffix, such as `x / "b.c"`."""
    last: ast.expr | None = None
    if isinstance(path, ast.BinOp) and isinstance(path.op, ast.Div):
        last = path.right
    elif isinstance(path, ast.Call) and _name(path.func) == "joinpath" and path.args:
        last = path.args[-1]
    return (
        isinstance(last, ast.Constant)
        and isinstance(last.value, str)
        and bool(PurePosixPath(last.value).suffix)
    )
