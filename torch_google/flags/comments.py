# SPDX-License-Identifier: Apache-2.0
"""Extract help texts for --help, on demand, from the comments above options in torch's sources."""

from __future__ import annotations

import ast
import functools
import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

# Comments with these prefixes are for linters and type checkers, so they are not help text.
_MARKS = ("# pyrefly", "# type:", "# noqa", "# mypy")
_WORDS = re.compile(r"\[?@compile_ignored(: \w+)?\]?")


def comment(module: str, name: str) -> str:
    """Return the comment above a config entry as one line, or "". Does not import torch."""
    return _comments(module).get(name, "")


def source(module: str) -> str | None:
    """Return the source of a torch module without importing it; None if torch is not installed."""
    package, *rest = module.split(".")
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return None
    loader: Any = spec.loader
    path = os.path.join(os.path.dirname(spec.origin), *rest) + ".py"
    text: str = loader.get_data(path).decode("utf-8")
    return text


def assignments(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """Yield (name, statement) for each assignment in a config module.

    The name of an assignment in a class is dotted, such as `triton.cudagraphs`.
    """
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from assignments(statement.body, f"{prefix}{statement.name}.")
        elif isinstance(statement, ast.If):
            yield from assignments([*statement.body, *statement.orelse], prefix)
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    yield prefix + target.id, statement
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield prefix + statement.target.id, statement


@functools.cache
def _comments(module: str) -> dict[str, str]:
    text = source(module)
    if text is None:
        return {}
    lines = text.splitlines()
    return {
        name: _above(lines, statement.lineno - 1)
        for name, statement in assignments(ast.parse(text).body)
    }


def _above(lines: list[str], end: int) -> str:
    start = end
    while start and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    block = (line.strip() for line in lines[start:end])
    text = " ".join(line.lstrip("# ") for line in block if not line.startswith(_MARKS))
    return _WORDS.sub("", text).strip()
