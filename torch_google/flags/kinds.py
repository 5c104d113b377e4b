# SPDX-License-Identifier: Apache-2.0
"""Option types, such as "int | None", which convert values from and to text."""

from __future__ import annotations

import ast
import functools
import json
from typing import Any

_YES = ("true", "t", "1", "yes", "y")
_NO = ("false", "f", "0", "no", "n")
_NAMED: dict[str, type] = {
    "bool": bool,
    "dict": dict,
    "float": float,
    "int": int,
    "list": list,
    "set": set,
    "str": str,
    "tuple": tuple,
}


class Kind:
    """An option's type, which parses text into a value and formats a value as text."""

    def __init__(self, type_text: str) -> None:
        self.text_of_type = type_text
        self._type = ast.parse(type_text, mode="eval").body
        self._choices = list(_alternatives(self._type))
        self._names = {ast.unparse(choice) for choice in self._choices}
        self.boolean = "bool" in self._names and self._names <= {"bool", "None"}

    def parse(self, text: Any) -> Any:
        """Return the value that `text` represents. If `text` is not a string, return it unchanged.

        Lists, dicts, sets and tuples are written as Python literals or JSON. Raises ValueError if
        the value is not of this type.
        """
        if not isinstance(text, str):
            if self.fits(text):
                return text
            raise ValueError(f"{text!r} is not {self.text_of_type}")
        for candidate in self._readings(text):
            if self.fits(candidate):
                return candidate
        raise ValueError(f"{text!r} is not {self.text_of_type}")

    def text(self, value: Any) -> str:
        """Format a value. Raises ValueError if the value is not of this type."""
        if not self.fits(value):
            raise ValueError(f"{value!r} is not {self.text_of_type}")
        return value if isinstance(value, str) else repr(value)

    def fits(self, value: Any) -> bool:
        """Return whether a value has this type.

        An int counts as a float, but a bool does not count as an int.
        """
        return _fits(value, self._type)

    def _readings(self, text: str) -> Any:
        """Yield candidate values for `text`, from the most specific type to a plain string."""
        for choice in self._choices:
            if isinstance(choice, ast.Subscript) and ast.unparse(choice.value) == "Literal":
                yield from (value for value in _literals(choice) if str(value) == text)
        if self._names == {"str"}:
            yield text
        if "None" in self._names and text.lower() in ("none", "null"):
            yield None
        if "bool" in self._names:
            count = 5 if self.boolean else 3
            if text.lower() in _YES[:count]:
                yield True
            if text.lower() in _NO[:count]:
                yield False
        if "int" in self._names:
            yield _attempt(lambda digits: int(digits, 0), text)
        if "float" in self._names:
            yield _attempt(float, text)
        if any(isinstance(choice, ast.Subscript) for choice in self._choices) or self._names & {
            "Any",
            "dict",
            "list",
            "set",
            "tuple",
        }:
            yield _attempt(ast.literal_eval, text)
            yield _attempt(json.loads, text)
        yield text


@functools.cache
def kind(type_text: str) -> Kind:
    """Return the Kind for a type. The result is cached."""
    return Kind(type_text)


class _Nothing:
    """A placeholder for the value of unparsable text. It matches no type."""


def _attempt(read: Any, text: str) -> Any:
    try:
        return read(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return _Nothing()


def _alternatives(node: ast.expr) -> Any:
    if isinstance(node, ast.BinOp):
        yield from _alternatives(node.left)
        yield from _alternatives(node.right)
    else:
        yield node


def _elements(node: ast.Subscript) -> list[ast.expr]:
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def _literals(node: ast.Subscript) -> list[Any]:
    return [ast.literal_eval(element) for element in _elements(node)]


def _fits(value: Any, node: ast.expr) -> bool:
    if isinstance(value, _Nothing):
        return False
    if isinstance(node, ast.BinOp):
        return _fits(value, node.left) or _fits(value, node.right)
    if isinstance(node, ast.Constant):
        return value is None
    if isinstance(node, ast.Name):
        if node.id == "Any":
            return True
        if node.id == "float":
            return type(value) in (float, int)
        return type(value) is _NAMED[node.id]
    assert isinstance(node, ast.Subscript), ast.unparse(node)
    outer, inner = ast.unparse(node.value), _elements(node)
    if outer == "Literal":
        return any(value == one and type(value) is type(one) for one in _literals(node))
    if type(value) is not _NAMED[outer]:
        return False
    parts: Any = value
    if outer == "dict":
        return all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in parts.items())
    if outer == "tuple" and ast.unparse(inner[-1]) != "...":
        return len(parts) == len(inner) and all(map(_fits, parts, inner))
    return all(_fits(one, inner[0]) for one in parts)
