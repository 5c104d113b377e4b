# SPDX-License-Identifier: Apache-2.0
"""Read pins from Starlark files without Bazel: constants and calls with constant arguments.

Starlark's syntax is a subset of Python's, so Python's parser can read it, and nothing is executed.
Only literals are accepted: strings, numbers, lists, dictionaries, and `dict(name = ...)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tools.importer.errors import UserError

Constants = dict[str, object]


def constant(file: Path, name: str) -> object:
    """Return the constant that a file assigns to `name` at its top level.

    Raises UserError if there is no such assignment, or if it is not a literal.
    """
    for statement in _statements(file):
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name) and target.id == name:
                    return _literal(file, statement.value)
    raise UserError(f"{file}: assigns no '{name}' at its top level. Add it there")


def calls(file: Path, function: str) -> list[Constants]:
    """Return the keyword arguments of each top-level call to `function`, such as `pypi.lock`.

    Raises UserError if an argument is not a literal.
    """
    keywords = []
    for statement in _statements(file):
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and ast.unparse(call.func) == function:
            keywords.append(_keywords(file, call))
    return keywords


def _statements(file: Path) -> Iterator[ast.stmt]:
    try:
        text = file.read_text(encoding="utf-8")
        yield from ast.parse(text, filename=str(file)).body
    except FileNotFoundError:
        raise UserError(f"{file}: no such file. Restore it: `git checkout -- {file}`") from None
    except SyntaxError as error:
        raise UserError(
            f"{file}:{error.lineno}: {error.msg}. Correct the line; Bazel reads it in the same way"
        ) from None


def _literal(file: Path, node: ast.expr) -> object:
    if isinstance(node, ast.Call) and _is_name(node.func, "dict") and not node.args:
        return _keywords(file, node)
    if isinstance(node, ast.Dict):
        keys = [
            _literal(file, key) if key is not None else _refuse(file, node) for key in node.keys
        ]
        return dict(zip(keys, (_literal(file, value) for value in node.values), strict=True))
    if isinstance(node, ast.List | ast.Tuple):
        return [_literal(file, item) for item in node.elts]
    if isinstance(node, ast.Constant):
        return node.value
    return _refuse(file, node)


def _keywords(file: Path, call: ast.Call) -> Constants:
    return {
        word.arg if word.arg is not None else _refuse(file, call): _literal(file, word.value)
        for word in call.keywords
    }


def _refuse(file: Path, node: ast.expr) -> str:
    raise UserError(
        f"{file}:{node.lineno}: '{ast.unparse(node)}' is not a constant. Write the value itself: "
        "pins are data"
    )


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
