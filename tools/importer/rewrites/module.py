# SPDX-License-Identifier: Apache-2.0
"""A Python source file prepared for data flow analysis: parents, scopes, name reads, imports.

It is parsed once with the standard library's `ast`, which is ten times as fast as a concrete syntax
tree and records the byte position of each node. Files are never executed or imported. One pass
indexes the nodes by name. A name is resolved lazily, because only a few names are queried.
"""

from __future__ import annotations

import ast
import posixpath
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

Function = ast.FunctionDef | ast.AsyncFunctionDef
_Scope = Function | ast.Lambda | ast.Module

# Syntax node fields that contain no expressions: strings, numbers, operators and contexts.
_LEAVES = frozenset(
    ("arg", "attr", "ctx", "id", "kind", "level", "module", "op", "ops", "type_comment")
)
_FIELDS = {
    kind: tuple(name for name in kind._fields if name not in _LEAVES)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST) and kind is not ast.Constant
}
_NAMED = frozenset(
    (
        *(ast.Name, ast.Attribute, ast.Call, ast.arg, ast.Import, ast.ImportFrom, ast.Global),
        *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
    )
)


@dataclass(frozen=True)
class Import:
    """The import that binds a local name: `name` in a module, or the module if `name` is empty.

    `module` is a path with forward slashes, relative to the import root.
    """

    module: str
    name: str

    @property
    def files(self) -> tuple[str, str]:
        """Return the two possible paths of the module's file: as a plain module or as a package."""
        return (f"{self.module}.py", f"{self.module}/__init__.py")


class Module:
    """A parsed file. `path` uses forward slashes and is relative to the import root."""

    def __init__(self, path: str, data: bytes) -> None:
        """Parse the file. Raises SyntaxError or ValueError if that fails."""
        self.path = path
        self.tree = ast.parse(data, path)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.functions: dict[str, list[Function]] = defaultdict(list)  # functions and methods
        self.classes: dict[str, ast.ClassDef] = {}
        self.calls: dict[str, list[ast.Call]] = defaultdict(list)  # keyed by the callee's last name
        # Attributes that are read, excluding those that are only assigned.
        self.attributes: dict[str, list[ast.Attribute]] = defaultdict(list)
        self._reads: dict[str, list[ast.Name]] = defaultdict(list)
        self._binders: dict[str, list[ast.AST]] = defaultdict(list)
        self._globals: dict[str, list[ast.Global]] = defaultdict(list)
        self._holders: dict[str, set[ast.AST]] = {}
        self._imports: list[ast.Import | ast.ImportFrom] = []
        self._walk()

    @cached_property
    def imports(self) -> dict[str, Import]:
        """Return the local names that imports bind, anywhere in the file."""
        imports: dict[str, Import] = {}
        for node in self._imports:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.name if alias.asname else alias.name.split(".")[0]
                    imports[alias.asname or name] = Import(_slashed(name.split(".")), "")
            else:
                base = _slashed(self._base(node))
                for alias in node.names:
                    imports[alias.asname or alias.name] = Import(base, alias.name)
        return imports

    @property
    def own_files(self) -> Sequence[ast.AST]:
        """Return the nodes that read the `__file__` of this module or of another one."""
        return [*self._reads.get("__file__", ()), *self.attributes.get("__file__", ())]

    def is_method(self, function: Function) -> bool:
        return isinstance(self.parents[function], ast.ClassDef)

    def function_of(self, node: ast.AST) -> str:
        """Return the dotted name of the function or class that encloses a node, or `<module>`."""
        names = [
            step.name for step in self._ancestors(node) if isinstance(step, Function | ast.ClassDef)
        ]
        return ".".join(reversed(names)) or "<module>"

    def scope_of(self, name: str, node: ast.AST) -> _Scope:
        """Return the scope that binds `name` for code at `node`: a function, or else the module."""
        binders = self._binders_of(name)
        inner: ast.AST = node
        outside = False  # whether the next function's own names are not visible
        for step in self._ancestors(node):
            outside = outside or _is_outside(step, inner)
            if isinstance(step, Function | ast.Lambda):
                if step in binders and not outside:
                    return step
                outside = False
            inner = step
        return self.tree

    def is_local(self, name: str, node: ast.AST) -> bool:
        """Return whether `name` is a local variable of a function that encloses `node`."""
        return self.scope_of(name, node) is not self.tree

    def loads(self, scope: _Scope, name: str) -> list[ast.Name]:
        """Return the nodes that read the value that `scope` binds to `name`."""
        reads = self._reads.get(name, ())
        return [node for node in reads if self.scope_of(name, node) is scope]

    def target_of(self, callee: ast.expr) -> Import | None:
        """Return where a callee is imported from: module and name; None if it is not imported."""
        if isinstance(callee, ast.Name):
            bound = self.imports.get(callee.id)
            return bound if bound is not None and bound.name else None
        dotted = _dotted(callee)
        if dotted is None or dotted[0] not in self.imports:
            return None
        bound = self.imports[dotted[0]]
        # After `from package import module`, the imported name is itself part of the module's path.
        below = [bound.name] if bound.name else []
        return Import(_slashed([*bound.module.split("/"), *below, *dotted[1:-1]]), dotted[-1])

    def _walk(self) -> None:
        """Record the parent of each node, and index nodes by name."""
        parents, reads = self.parents, self._reads
        pending: list[ast.AST] = [self.tree]
        while pending:
            node = pending.pop()
            kind = type(node)
            if kind in _NAMED:
                self._put(node)
            for field in _FIELDS[kind]:
                value = getattr(node, field)
                for child in value if type(value) is list else (value,):
                    # A third of torch's 500,000 syntax nodes are reads of names, which have no
                    # children to visit.
                    if type(child) is ast.Name and type(child.ctx) is ast.Load:
                        parents[child] = node
                        reads[child.id].append(child)
                    elif type(child) in _FIELDS:
                        parents[child] = node
                        pending.append(child)

    def _put(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                self._binders[node.id].append(node)
        elif isinstance(node, ast.Attribute):
            if isinstance(node.ctx, ast.Load):
                self.attributes[node.attr].append(node)
        elif isinstance(node, ast.Call):
            self.calls[last_name(node.func)].append(node)
        elif isinstance(node, ast.arg):
            self._binders[node.arg].append(node)
        elif isinstance(node, Function):
            self.functions[node.name].append(node)
        elif isinstance(node, ast.ClassDef):
            self.classes[node.name] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self._imports.append(node)
        elif isinstance(node, ast.Global):
            for name in node.names:
                self._globals[name].append(node)

    def _binders_of(self, name: str) -> set[ast.AST]:
        """Return the scopes that bind a name: functions, and possibly the module."""
        if name not in self._holders:
            bound = {self._holder(node) for node in self._binders.get(name, ())}
            self._holders[name] = bound - {
                self._holder(each) for each in self._globals.get(name, ())
            }
        return self._holders[name]

    def _holder(self, node: ast.AST) -> ast.AST:
        for step in self._ancestors(node):
            if isinstance(step, Function | ast.Lambda):
                return step
        return self.tree

    def _ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        step = self.parents.get(node)
        while step is not None:
            yield step
            step = self.parents.get(step)

    def _base(self, node: ast.ImportFrom) -> list[str]:
        names = node.module.split(".") if node.module else []
        if not node.level:
            return names
        package = posixpath.dirname(self.path).split("/")
        return [*package[: len(package) - node.level + 1], *names]


def last_name(node: ast.AST) -> str:
    """Return the name of a variable, or the last component of a dotted name."""
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")


def _slashed(names: Sequence[str]) -> str:
    return "/".join(name for name in names if name != "__init__")


def _dotted(node: ast.expr) -> list[str] | None:
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return [*reversed([*names, node.id])]


def _is_outside(step: ast.AST, child: ast.AST) -> bool:
    """Return whether a part of a function is evaluated in the scope that encloses the function.

    These parts are decorators, annotations, and default arguments.
    """
    if isinstance(step, ast.arguments):
        return child in step.defaults or child in step.kw_defaults
    if isinstance(step, ast.arg):
        return child is step.annotation
    if isinstance(step, Function):
        return child in step.decorator_list or child is step.returns
    return False
