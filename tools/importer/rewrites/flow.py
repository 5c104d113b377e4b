# SPDX-License-Identifier: Apache-2.0
"""The data flow of paths computed from `__file__` within a file.

The analysis is flow-insensitive: a name holds such a path if any assignment to it does. This
deliberately over-approximates: a false positive costs only an exemption with a reason, whereas no
test would reveal a missed call. A path that a parameter receives gets a weaker mark (`PASSED`),
because other callers may pass other paths.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from tools.importer.rewrites.module import Function, Import, Module
from tools.importer.rewrites.module import last_name as _last

PASSED, OWN = 1, 2

SOURCE_TOKENS = (b"__file__", b"getfile", b"getsourcefile")

# Functions that never return a path, regardless of their arguments.
_NO_PATH = frozenset(
    """open open_resource read read_text read_bytes read_file basename
    exists isfile isdir islink is_file is_dir stat getsize getmtime
    getattr hasattr isinstance len print startswith endswith match search fullmatch sub findall
    sha256 md5 hexdigest debug info warning error exception
    compile exec eval import_module run check_call check_output""".split()  # noqa: SIM905 - prose
)
_PATH_CLASSES = frozenset(
    ("Path", "PurePath", "PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")
)
_NO_PATH_ATTRIBUTES = frozenset(("name", "stem", "suffix", "suffixes", "anchor", "drive"))
_FILLS = frozenset(("append", "add", "extend", "insert", "update", "setdefault", "appendleft"))


@dataclass(frozen=True)
class Passed:
    """A path that is passed to a function in another file, as a positional or keyword argument."""

    target: Import
    parameter: int | str


@dataclass(frozen=True)
class Taken:
    """A path that the function (or class) `name` of this file receives as an argument."""

    name: str
    parameter: int | str


@dataclass(frozen=True)
class Export:
    """A name through which a file exports a path computed from `__file__`.

    The name holds the path or, if `called` is true, a function that returns it.
    """

    name: str
    called: bool


@dataclass(frozen=True)
class Imported:
    """A name that is imported from the file `maker`, which exports it."""

    maker: str
    export: Export


Given = Taken | Imported


@dataclass
class Flow:
    """The analysis of a file. `marks` maps each syntax node that holds a path to OWN or PASSED.

    `give` adds facts from other files. Marks are never removed.
    """

    module: Module
    marks: dict[ast.AST, int] = field(default_factory=dict)
    passed: set[Passed] = field(default_factory=set)
    exports: set[Export] = field(default_factory=set)

    def start(self) -> None:
        """Mark `__file__`, `x.__file__` and calls to inspect.getfile and getsourcefile."""
        for node in self.module.own_files:
            self._mark(node, OWN)
        for name in ("getfile", "getsourcefile"):
            for call in self.module.calls.get(name, ()):
                # Use the weaker mark PASSED, because the call's argument may come from outside this
                # tree.
                self._mark(call, PASSED)

    def give(self, given: Given) -> None:
        """Mark the parameters or imported names through which another file supplies a path."""
        if isinstance(given, Taken):
            for function in self._callees(given.name):
                self._mark_parameter(function, given.parameter)
            return
        module, export = self.module, given.export
        for local, bound in module.imports.items():
            if bound.name == export.name and given.maker in bound.files:
                for load in module.loads(module.tree, local):
                    self._mark_use(load, export.called)
        for node in module.attributes.get(export.name, ()):
            target = module.target_of(node)
            if target is not None and given.maker in target.files:
                self._mark_use(node, export.called)

    def _mark_use(self, node: ast.expr, called: bool) -> None:
        if not called:
            self._mark(node, OWN)
            return
        parent = self.module.parents[node]
        if isinstance(parent, ast.Call) and parent.func is node:
            self._mark(parent, OWN)

    def _mark(self, node: ast.AST, level: int) -> None:
        pending = [(node, level)]
        while pending:
            node, level = pending.pop()
            if self.marks.get(node, 0) >= level:
                continue
            self.marks[node] = level
            pending += [(reached, level) for reached in self._next(node, level)]

    def _next(self, node: ast.AST, level: int) -> list[ast.AST]:
        """Return the nodes that receive the value of `node`, a path computed from `__file__`."""
        parent = self.module.parents[node]
        match parent:
            case ast.Call(func=func) if func is node:
                return [parent] if _gives_path(func) else []
            case ast.Call():
                return self._through_call(parent, node, None, level)
            case ast.keyword(arg=name):
                call = self.module.parents[parent]
                return self._through_call(call, node, name, level) if _is_call(call) else []
            case ast.Attribute(attr=attr):
                return [] if attr in _NO_PATH_ATTRIBUTES else [parent]
            case ast.Subscript(value=value) | ast.IfExp(test=value):
                if isinstance(parent, ast.IfExp):
                    return [] if value is node else [parent]
                return [parent] if value is node else []
            case ast.NamedExpr(target=target):
                return [parent, *self._targets(target, level)]
            case (
                ast.BinOp()
                | ast.BoolOp()
                | ast.JoinedStr()
                | ast.FormattedValue()
                | ast.Starred()
                | ast.List()
                | ast.Tuple()
                | ast.Set()
                | ast.Dict()
                | ast.Await()
                | ast.ListComp()
                | ast.SetComp()
                | ast.GeneratorExp()
                | ast.DictComp()
            ):
                return [parent]
            case ast.comprehension(iter=values, target=target) if values is node:
                return self._targets(target, level)
            case ast.For(iter=values, target=target) if values is node:
                return self._targets(target, level)
            case ast.Assign(targets=targets):
                return [read for each in targets for read in self._targets(each, level)]
            case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
                return self._targets(target, level)
            case ast.withitem(optional_vars=ast.expr() as target):
                return self._targets(target, level)
            case ast.Return() | ast.Yield() | ast.YieldFrom():
                return self._through_return(parent, level)
            case ast.arguments():
                return self._through_default(parent, node, level)
        return []

    def _through_call(
        self, call: ast.AST, node: ast.AST, keyword: str | None, level: int
    ) -> list[ast.AST]:
        assert isinstance(call, ast.Call)
        callee, arguments = call.func, list(call.args)
        if _last(callee) == "partial" and arguments and arguments[0] is not node:
            callee, arguments = arguments[0], arguments[1:]
        where: int | str | None = keyword
        if node in arguments:
            where = next(index for index, each in enumerate(arguments) if each is node)
        if where is not None:
            self._pass(callee, where)
        if isinstance(callee, ast.Attribute) and callee.attr in _FILLS:
            return list(self._targets(callee.value, level))
        return [call] if _gives_path(callee) else []

    def _pass(self, callee: ast.expr, where: int | str) -> None:
        target = self.module.target_of(callee)
        if target is not None:
            self.passed.add(Passed(target, where))
        elif isinstance(callee, ast.Name) or _owner(callee) in ("self", "cls"):
            for function in self._callees(_last(callee)):
                self._mark_parameter(function, where)

    def _callees(self, name: str) -> list[Function]:
        if name in self.module.classes:
            body = self.module.classes[name].body
            return [each for each in body if isinstance(each, Function) and each.name == "__init__"]
        return self.module.functions.get(name, [])

    def _mark_parameter(self, function: Function, parameter: int | str) -> None:
        arguments = function.args
        ordered = [*arguments.posonlyargs, *arguments.args]
        if isinstance(parameter, int):
            static = any(_last(each) == "staticmethod" for each in function.decorator_list)
            index = parameter + (self.module.is_method(function) and not static)
            parameter = ordered[index].arg if index < len(ordered) else ""
        if parameter in {each.arg for each in (*ordered, *arguments.kwonlyargs)}:
            for load in self.module.loads(function, parameter):
                self._mark(load, PASSED)

    def _through_return(self, node: ast.AST, level: int) -> list[ast.AST]:
        name = self.module.function_of(node)
        simple = name.rpartition(".")[2]
        if level < OWN or simple == "<module>":
            return []
        if "." not in name:
            self.exports.add(Export(name, called=True))
        return [
            call
            for call in self.module.calls.get(simple, ())
            if isinstance(call.func, ast.Name) or _owner(call.func) in ("self", "cls")
        ]

    def _through_default(self, parent: ast.arguments, node: ast.AST, level: int) -> list[ast.AST]:
        ordered = [*parent.posonlyargs, *parent.args]
        pairs = list(zip(reversed(ordered), reversed(parent.defaults), strict=False))
        pairs += [(a, d) for a, d in zip(parent.kwonlyargs, parent.kw_defaults, strict=True) if d]
        scope = self.module.parents[parent]
        return [
            load
            for argument, default in pairs
            if default is node and isinstance(scope, Function | ast.Lambda)
            for load in self.module.loads(scope, argument.arg)
        ]

    def _targets(self, target: ast.AST, level: int) -> list[ast.AST]:
        """Return the nodes that read the variables assigned by `target`."""
        module = self.module
        match target:
            case ast.Name(id=name):
                scope = module.scope_of(name, target)
                reads: list[ast.AST] = list(module.loads(scope, name))
                owner = module.function_of(target)
                if owner in module.classes:
                    reads += self._attribute(name)
                elif scope is module.tree and level == OWN:
                    self.exports.add(Export(name, called=False))
                return reads
            case ast.Attribute(attr=attr, value=ast.Name(id="self" | "cls")):
                return self._attribute(attr)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return [read for part in parts for read in self._targets(part, level)]
            case ast.Starred(value=value) | ast.Subscript(value=value):
                return self._targets(value, level)
        return []

    def _attribute(self, name: str) -> list[ast.AST]:
        owners = {"self", "cls", *self.module.classes}
        return [node for node in self.module.attributes.get(name, ()) if _owner(node) in owners]


def _gives_path(callee: ast.expr) -> bool:
    """Return whether a call may return a path passed to it. Most constructors do not."""
    name = _last(callee)
    return name not in _NO_PATH and (name in _PATH_CLASSES or not name.lstrip("_")[:1].isupper())


def _is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call)


def _owner(node: ast.AST) -> str:
    value = getattr(node, "value", None)
    return value.id if isinstance(value, ast.Name) else ""
