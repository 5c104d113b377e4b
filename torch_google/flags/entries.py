# SPDX-License-Identifier: Apache-2.0
"""Extract the types, defaults and environment variables of torch's config entries."""

from __future__ import annotations

import ast
import os
import types
import typing
from collections.abc import Iterator
from typing import Any

from torch_google.flags.comments import assignments, source
from torch_google.flags.environment import PATTERN

# Names that an expression can use without becoming machine-dependent.
_SAME_EVERYWHERE = frozenset(
    (
        *("Config", "Literal", "get_tristate_env", "is_fbcode", "os"),
        *("bool", "cast", "dict", "float", "int", "len", "list", "set", "str", "tuple"),
    )
)
_ABSENT = "unknown"
_CALLABLE = "takes functions or objects, which a flag cannot express"
_LEFTOVER = "an import or an intermediate value, not an option"
_BOOKKEEPING = "names other entries for torch's own bookkeeping"
_BOOKS = ("_save_config_ignore", "_cache_config_ignore_prefix", "_cache_config_factory_keys")


def entries(module: Any) -> dict[str, dict[str, Any]]:
    """Return a registry record for each entry in a config module, in the module's order.

    The caller must have unset torch's environment variables before importing torch.
    """
    written = _Written(source(module.__name__) or "")
    return {name: _facts(name, entry, written) for name, entry in module._config.items()}


def type_text(annotation: Any) -> str | None:
    """Return the flag type for an annotation, or None if text cannot express its values.

    Members of a union that text cannot express are dropped.
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
    """Return a value as a Python literal with sorted sets, or None if no literal can express it."""
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
    # In torch v2.6, entries lack the attributes `alias` and `deprecated`.
    if (alias := getattr(entry, "alias", None)) is not None:
        return {"type": _ABSENT, "left_out": f"another name of {alias}"}
    if not written.has(name):
        return {"type": _ABSENT, "left_out": _LEFTOVER}
    kind = type_text(entry.value_type)
    facts: dict[str, Any] = {"type": kind or _ABSENT}
    if kind == "None":  # the entry has no type, or a type that text cannot express
        facts["type"] = "Any"
        if entry.value_type is not type(None):
            kind = None
    if kind is None:
        return {"type": _ABSENT, "left_out": _CALLABLE}
    if name in _BOOKS:
        return {"type": kind, "left_out": _BOOKKEEPING}
    # An absolute path is machine-dependent, even if its expression uses no machine-dependent name.
    is_path = isinstance(entry.default, str) and os.path.isabs(entry.default)
    same = written.same_everywhere(name) and not is_path
    if same and (default := literal(entry.default)) is not None:
        facts["default"] = default
    facts.update(written.names(name))
    if entry.justknob is not None:
        facts["knob"] = entry.justknob
    if getattr(entry, "deprecated", False):
        facts["deprecated"] = True
    return facts


class _Written:
    """The expressions that a config module's source assigns to its entries."""

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
        """Return whether the module assigns a value to an entry."""
        return bool(self._expressions(entry))

    def names(self, entry: str) -> dict[str, list[str]]:
        """Return an entry's environment variables by kind: `force`, `environ` and `read`.

        `registry.Option` explains the kinds.
        """
        by_key: dict[str, list[str]] = {}
        for value in self._expressions(entry):
            for node in self._reached(value):
                for name in _constants(node):
                    if PATTERN.fullmatch(name):
                        by_key.setdefault("read", []).append(name)
            if isinstance(value, ast.Call) and ast.unparse(value.func) == "Config":
                for keyword in value.keywords:
                    if keyword.arg in ("env_name_default", "env_name_force"):
                        keys = {"env_name_default": "environ", "env_name_force": "force"}
                        by_key[keys[keyword.arg]] = list(_constants(keyword.value))
        counted = {*by_key.get("force", ()), *by_key.get("environ", ())}
        read = [name for name in dict.fromkeys(by_key.get("read", ())) if name not in counted]
        return {key: names for key, names in {**by_key, "read": read}.items() if names}

    def same_everywhere(self, entry: str) -> bool:
        """Return whether the default is machine-independent if no environment variable is set."""
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
        """Yield an expression, and the functions and expressions that it refers to, recursively."""
        pending: list[ast.AST] = [value]
        visited: set[str] = set()
        while pending:
            node = pending.pop()
            yield node
            for name in ast.walk(node):
                if isinstance(name, ast.Name) and name.id not in visited:
                    visited.add(name.id)
                    pending.extend(self._values.get(name.id, ()))
                    if name.id in self._functions:
                        pending.append(self._functions[name.id])


def _constants(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value
