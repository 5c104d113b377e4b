# SPDX-License-Identifier: Apache-2.0
"""Replace single calls in the bytes of a file; every other byte stays as it is.

Only the call itself becomes a concrete syntax tree, which keeps its comments, breaks and CRLF; it is
put back at its very bytes. So the cost is that of the call, whatever the size of the file.
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
    """Return the call that takes the place of `text`; None where no operation of the rule fits."""
    plain = text.replace("\r\n", "\n")
    crlf = plain != text
    if "\r" in plain or (crlf and plain.count("\n") != text.count("\r\n")):
        return None  # newlines of two kinds in one call
    # In parentheses, as it stands in the file: a method call may break before its dot.
    call = cst.parse_expression(f"({plain})")
    assert isinstance(call, cst.Call)
    if cst.Module([]).code_for_node(call) != f"({plain})":
        return None  # never seen; to write it back would change what nobody asked to change
    for operation in rule.operations:
        found = m.extract(call, operation.call)
        if found is not None:
            path = found[PATH]
            assert isinstance(path, cst.BaseExpression)
            new = cst.Module([]).code_for_node(_replace(call, path, rule.target, operation))[1:-1]
            return new.replace("\n", "\r\n") if crlf else new
    return None


def rewrite_file(
    data: bytes, module: Module, sites: Sequence[tuple[Site, str]], target: str
) -> bytes | None:
    """Return the file with each site replaced by its new text, and the import that `target` needs.

    None where another variable of that name hides the module that the new call names.
    """
    root = target.split(".")[0]
    places = {(site.line, site.column) for site, _ in sites}
    # Two calls that begin at one place, as in `f()()`, see the same variables.
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
        # Its own argument list goes on, so that a call over several lines changes in one.
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
    """Whether `import root`, or of something below it, binds the name when the file is imported."""
    return any(
        alias.asname in (None, root) and alias.name.split(".")[0] == root
        for statement in tree.body
        if isinstance(statement, ast.Import)
        for alias in statement.names
        if alias.asname is None or alias.name == root
    )


def _with_import(data: bytes, tree: ast.Module, target: str) -> bytes | None:
    """Put `import <module of target>` above the first import that is none of the future."""
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
        return None  # one line that is docstring and program
    at = starts[line - 1]
    newline = b"\r\n" if b"\r\n" in data else b"\n"
    return data[:at] + f"import {module}".encode() + newline + data[at:]
