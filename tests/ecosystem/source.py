# SPDX-License-Identifier: Apache-2.0
"""Compute a digest of a case's code, to recognize results from older code as stale.

The code of a case is its function and all definitions in the case modules, and in case.py, that it
uses directly or indirectly. Each method of `Run` is a separate definition. Comments, docstrings,
layout and the list of modes are not part of it. Neither is the code of libraries or of the device.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import sys
from collections.abc import Iterator

from tests.ecosystem.case import Case, Run

_PACKAGE = "tests.ecosystem"
_Definition = tuple[str, str]
"""A module and the name that it defines, for a method of `Run` for example `Run.train`."""


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
    for names, statement in _statements(module):
        if name not in names:
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
        methods = {f"{Run.__name__}.{attribute}" for attribute in _attributes(stripped)}
        used |= {(Run.__module__, method) for method in methods & _all_bound(Run.__module__)}
    return "\n".join(code), sorted(used - {(module, name)})


@functools.cache
def _statements(module: str) -> list[tuple[frozenset[str], ast.stmt]]:
    """Return the statements of a module, each with the names that it defines.

    The methods of `Run` are separate from the rest of the class, so that a change in one concerns
    only the cases that use it.
    """
    statements: list[tuple[frozenset[str], ast.stmt]] = []
    for statement in ast.parse(inspect.getsource(sys.modules[module])).body:
        if module == Run.__module__ and Run.__name__ in _bound(statement):
            assert isinstance(statement, ast.ClassDef)
            methods = [item for item in statement.body if isinstance(item, ast.FunctionDef)]
            statements += [(frozenset({f"{Run.__name__}.{item.name}"}), item) for item in methods]
            statement.body = [item for item in statement.body if item not in methods]
        statements.append((frozenset(_bound(statement)), statement))
    return statements


@functools.cache
def _all_bound(module: str) -> frozenset[str]:
    return frozenset(name for names, _ in _statements(module) for name in names)


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


def _attributes(statement: ast.stmt) -> set[str]:
    return {node.attr for node in ast.walk(statement) if isinstance(node, ast.Attribute)}


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
