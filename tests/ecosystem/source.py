# SPDX-License-Identifier: Apache-2.0
"""Compute a digest of a case's code, to recognize results from older code as stale.

The code of a case is its function and all definitions in the case modules, and in case.py, that it
uses directly or indirectly. Comments, docstrings, layout and the list of modes are not part of
it. Neither is the code of libraries or of the device.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import sys
from collections.abc import Iterator

from tests.ecosystem.case import Case

_PACKAGE = "tests.ecosystem"
_Definition = tuple[str, str]
"""A module and the name that it defines."""


def digest(case: Case) -> str:
    """Return the digest of a case's code and tolerance, as 12 hexadecimal digits."""
    function = inspect.unwrap(case.function)
    pending: list[_Definition] = [(function.__module__, function.__name__)]
    seen: set[_Definition] = set()
    while pending:
        item = pending.pop()
        if item not in seen:
            seen.add(item)
            pending += definition(*item)[1]
    code = [definition(*item)[0] for item in sorted(seen)]
    text = "\n".join([f"{case.rtol} {case.atol}", *code])
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@functools.cache
def definition(module: str, name: str) -> tuple[str, list[_Definition]]:
    """Return the code that defines a name, and the definitions that this code uses.

    If the name is imported from outside the package, its code is the import statement.
    """
    code, used = [], set[_Definition]()
    for statement in _statements(module):
        if name not in _bound(statement):
            continue
        if isinstance(statement, ast.Import | ast.ImportFrom):
            origin = getattr(statement, "module", None) or ""
            if origin.startswith(_PACKAGE):
                used.add((origin, name))
            else:
                code.append(f"from {origin} import {name}")
            continue
        stripped = _Stripped().visit(_copy(statement))
        code.append(ast.unparse(stripped))
        used |= {(module, other) for other in _names(stripped) if other in _all_bound(module)}
    return "\n".join(code), sorted(used - {(module, name)})


@functools.cache
def _statements(module: str) -> list[ast.stmt]:
    return ast.parse(inspect.getsource(sys.modules[module])).body


@functools.cache
def _all_bound(module: str) -> frozenset[str]:
    return frozenset(name for statement in _statements(module) for name in _bound(statement))


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a module-level statement defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0]
    else:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _names(statement: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}


def _copy(statement: ast.stmt) -> ast.stmt:
    return ast.parse(ast.unparse(statement)).body[0]


class _Stripped(ast.NodeTransformer):
    """An AST transformer that removes docstrings and `case` decorators.

    `digest` adds the tolerances, which are arguments of these decorators, separately.
    """

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = [item for item in node.decorator_list if not _is_case(item)]
        return self._stripped(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._stripped(node)

    def _stripped(self, node: ast.FunctionDef | ast.ClassDef) -> ast.AST:
        if ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return self.generic_visit(node)


def _is_case(decorator: ast.expr) -> bool:
    return (
        isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Name)
        and decorator.func.id == "case"
    )
