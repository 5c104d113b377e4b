# SPDX-License-Identifier: Apache-2.0
"""Replace calls in the bytes of a file and leave all other bytes unchanged.

Only the call is parsed into a concrete syntax tree, which preserves its comments, line breaks and
CRLF. Only its bytes are replaced, so the cost depends on the size of the call, not of the file.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

import libcst as cst
import libcst.matchers as m

from tools.importer.rewrites.module import Module
from tools.importer.rewrites.rule import PATH, Operation, Rule
from tools.importer.rewrites.sites import Site, line_starts


def rewritten_call(rule: Rule, text: str) -> str | None:
    """Return the replacement for the call `text`; None if no operation of the rule matches."""
    plain = text.replace("\r\n", "\n")
    crlf = plain != text
    if "\r" in plain or (crlf and plain.count("\n") != text.count("\r\n")):
        return None  # the call mixes LF and CRLF
    # Without parentheses, a line break before the dot of a method call would be a syntax error.
    call = cst.parse_expression(f"({plain})")
    assert isinstance(call, cst.Call)
    if cst.Module([]).code_for_node(call) != f"({plain})":
        return None  # libcst did not reproduce the text: writing it would change other bytes
    for operation in rule.operations:
        match = m.extract(call, operation.call)
        if match is not None:
            path = match[PATH]
            assert isinstance(path, cst.BaseExpression)
            new = cst.Module([]).code_for_node(_replace(call, path, rule.target, operation))[1:-1]
            return new.replace("\n", "\r\n") if crlf else new
    return None


def rewrite_file(
    data: bytes, module: Module, sites: Sequence[tuple[Site, str]], target: str
) -> bytes | None:
    """Return the file with each call replaced by its new text.

    An import of `target`'s module is added to the file if it is missing. Return None if a local
    variable shadows this module, or if there is no line at which to insert the import.
    """
    root = target.split(".")[0]
    places = {(site.line, site.column) for site, _ in sites}
    # Several calls may begin at the same position, as in `f()()`, but they are in the same scope.
    calls = (call for named in module.calls.values() for call in named)
    if any(
        (call.lineno, call.col_offset) in places and module.is_local(root, call) for call in calls
    ):
        return None
    for site, text in sorted(sites, key=lambda each: each[0].start, reverse=True):
        data = data[: site.start] + text.encode("utf-8") + data[site.end :]
    return data if _imported(module.tree, root) else _with_import(data, module.tree, target)


def _replace(
    call: cst.Call, path: cst.BaseExpression, target: str, operation: Operation
) -> cst.BaseExpression:
    function = cst.parse_expression(target)
    if call.args and call.args[0].value is path:
        # Preserve the layout of the argument list, so that only one line changes in a call that
        # spans several lines.
        only = call.args[0].with_changes(keyword=None, equal=cst.MaybeSentinel.DEFAULT)
        if len(call.args) > 1:
            only = only.with_changes(comma=cst.MaybeSentinel.DEFAULT)
        new = call.with_changes(func=function, args=[only])
    else:
        new = cst.Call(function, [cst.Arg(path)], lpar=call.lpar, rpar=call.rpar)
    if not operation.suffix:
        return new
    inner = cst.Module([]).code_for_node(new.with_changes(lpar=[], rpar=[]))
    outer = cst.parse_expression(f"({inner}{operation.suffix})")
    return outer.with_changes(lpar=call.lpar, rpar=call.rpar)


def _imported(tree: ast.Module, root: str) -> bool:
    """Return whether the module imports `root` or a submodule of it at the top level."""
    return any(
        alias.asname in (None, root) and alias.name.split(".")[0] == root
        for statement in tree.body
        if isinstance(statement, ast.Import)
        for alias in statement.names
        if alias.asname is None or alias.name == root
    )


def _with_import(data: bytes, tree: ast.Module, target: str) -> bytes | None:
    """Insert an import of `target`'s module before the first import that is not from __future__.

    Returns None if the file has no line at which to insert it.
    """
    module = target.rpartition(".")[0]
    starts = line_starts(data)
    line = 1
    for statement in tree.body:
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if isinstance(statement, ast.Import | ast.ImportFrom) and not future:
            line = statement.lineno
            break
        if future or text:
            line = (statement.end_lineno or 0) + 1
    if line > len(starts):
        return None  # the docstring and code are on one line
    offset = starts[line - 1]
    newline = b"\r\n" if b"\r\n" in data else b"\n"
    return data[:offset] + f"import {module}".encode() + newline + data[offset:]
