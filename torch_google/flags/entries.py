# SPDX-License-Identifier: Apache-2.0
"""What the entries of torch's config modules are: types and defaults as installed, names as written."""

from __future__ import annotations

import ast
import os
import types
import typing
from collections.abc import Iterator
from typing import Any

from torch_google.flags.comments import assignments, source
from torch_google.flags.environment import PATTERN

# What an expression may name and still mean the same on every machine.
_SAME_EVERYWHERE = frozenset(
    (
        *("Config", "Literal", "get_tristate_env", "is_fbcode", "os"),
        *("bool", "cast", "dict", "float", "int", "len", "list", "set", "str", "tuple"),
    )
)
_ABSENT = "unknown"
_CALLABLE = "takes functions or objects, which only code can give it"
_LEFTOVER = "an import or a step of the module's own, which nobody reads"
_BOOKKEEPING = "names other entries for torch's own bookkeeping"
_BOOKS = ("_save_config_ignore", "_cache_config_ignore_prefix", "_cache_config_factory_keys")


def entries(module: Any) -> dict[str, dict[str, Any]]:
    """Return the facts of each entry of an installed config module, in its order.

    The environment of this process must have none of torch's names.
    """
    written = _Written(source(module.__name__) or "")
    return {name: _facts(name, entry, written) for name, entry in module._config.items()}


def type_text(annotation: Any) -> str | None:
    """Return a type as a flag can have it; None when text can give nothing of it.

    Of a union what text can give remains.
    """
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in (bool, int, float, str, list, set, dict, tuple):
        return str(annotation.__name__)
    if annotation is Any:
        return "Any"
    if annotation in (None, type(None)):
        return "None"
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if origin in (typing.Union, types.UnionType):
        parts = [text for text in map(type_text, arguments) if text is not None]
        return "Any" if "Any" in parts else " | ".join(dict.fromkeys(parts)) or None
    if origin in (list, set, dict, tuple):
        inner = ["..." if one is ... else type_text(one) for one in arguments]
        if any(one in (None, "None") for one in inner if origin is not tuple) or None in inner:
            return None
        return f"{origin.__name__}[{', '.join(map(str, inner))}]"
    return None


def literal(value: Any) -> str | None:
    """Return a value as a Python literal, sets in order; None when it is none."""
    if isinstance(value, set):
        parts = [literal(one) for one in value]
        if None in parts:
            return None
        return f"{{{', '.join(sorted(map(str, parts)))}}}" if parts else "set()"
    text = repr(value)
    try:
        return text if ast.literal_eval(text) == value else None
    except (ValueError, SyntaxError):
        return None


def _facts(name: str, entry: Any, written: _Written) -> dict[str, Any]:
    # v2.6 knows neither other names nor old ones.
    if (alias := getattr(entry, "alias", None)) is not None:
        return {"type": _ABSENT, "left_out": f"another name of {alias}"}
    if not written.has(name):
        return {"type": _ABSENT, "left_out": _LEFTOVER}
    kind = type_text(entry.value_type)
    facts: dict[str, Any] = {"type": kind or _ABSENT}
    if kind == "None":  # a default without a type, or a type that only code can give
        facts["type"] = "Any"
        if entry.value_type is not type(None):
            kind = None
    if kind is None:
        return {"type": _ABSENT, "left_out": _CALLABLE}
    if name in _BOOKS:
        return {"type": kind, "left_out": _BOOKKEEPING}
    # An absolute path is of the machine that this runs on, however it was written.
    of_here = isinstance(entry.default, str) and os.path.isabs(entry.default)
    same = written.same_everywhere(name) and not of_here
    if same and (default := literal(entry.default)) is not None:
        facts["default"] = default
    facts.update(written.names(name))
    if entry.justknob is not None:
        facts["knob"] = entry.justknob
    if getattr(entry, "deprecated", False):
        facts["deprecated"] = True
    return facts


class _Written:
    """The source of a config module: which expression each entry has, and what it reads."""

    def __init__(self, text: str) -> None:
        tree = ast.parse(text)
        self._functions = {
            node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)
        }
        self._parents = {
            node.name: ast.unparse(decorator.args[0])
            for node in tree.body
            if isinstance(node, ast.ClassDef)
            for decorator in node.decorator_list
            if isinstance(decorator, ast.Call) and decorator.args
        }
        self._values: dict[str, list[ast.expr]] = {}
        for name, statement in assignments(tree.body):
            value = getattr(statement, "value", None)
            if value is not None:
                self._values.setdefault(name, []).append(value)

    def has(self, entry: str) -> bool:
        """Whether the module assigns an entry."""
        return bool(self._expressions(entry))

    def names(self, entry: str) -> dict[str, list[str]]:
        """Return the environment names of an entry, by how they count."""
        found: dict[str, list[str]] = {}
        for value in self._expressions(entry):
            for node in self._reached(value):
                for name in _constants(node):
                    if PATTERN.fullmatch(name):
                        found.setdefault("read", []).append(name)
            if isinstance(value, ast.Call) and ast.unparse(value.func) == "Config":
                for keyword in value.keywords:
                    if keyword.arg in ("env_name_default", "env_name_force"):
                        how = {"env_name_default": "environ", "env_name_force": "force"}
                        found[how[keyword.arg]] = list(_constants(keyword.value))
        counted = {*found.get("force", ()), *found.get("environ", ())}
        read = [name for name in dict.fromkeys(found.get("read", ())) if name not in counted]
        return {key: names for key, names in {**found, "read": read}.items() if names}

    def same_everywhere(self, entry: str) -> bool:
        """Whether the default of an entry is the same on every machine, without an environment."""
        expressions = self._expressions(entry)
        reached = [node for value in expressions for node in self._reached(value)]
        inner = [node for top in reached for node in ast.walk(top)]
        names = [node for node in inner if isinstance(node, ast.Name)]
        own = {name.id for name in names if isinstance(name.ctx, ast.Store)}
        own |= {node.arg for node in inner if isinstance(node, ast.arg)}
        known = _SAME_EVERYWHERE | own | self._functions.keys() | self._values.keys()
        return len(expressions) == 1 and all(name.id in known for name in names)

    def _expressions(self, entry: str) -> list[ast.expr]:
        owner, dot, rest = entry.partition(".")
        if entry not in self._values and dot and owner in self._parents:
            return self._expressions(f"{self._parents[owner]}.{rest}")
        return self._values.get(entry, [])

    def _reached(self, value: ast.expr) -> Iterator[ast.AST]:
        """Yield an expression, and what it names of the module: functions, and other expressions."""
        pending: list[ast.AST] = [value]
        seen: set[str] = set()
        while pending:
            node = pending.pop()
            yield node
            for name in ast.walk(node):
                if isinstance(name, ast.Name) and name.id not in seen:
                    seen.add(name.id)
                    pending.extend(self._values.get(name.id, ()))
                    if name.id in self._functions:
                        pending.append(self._functions[name.id])


def _constants(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value
