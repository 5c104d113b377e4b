# SPDX-License-Identifier: Apache-2.0
"""Read and write the subset of the protobuf text format that METADATA files use.

The subset consists of `name: "text"` (in either kind of quotes; adjacent strings are joined),
integers, symbols (enums, true, false), blocks `name { ... }`, and `#` comments, which are dropped.
Lists in brackets, extensions and floats are rejected. `read` is the inverse of `write`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+|\#[^\n]*)
      | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<number>-?[0-9]{1,19}(?![.\w]))
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<mark>[{}:;,])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_AS_THEY_ARE = "\"'\\?"


class TextprotoError(ValueError):
    """The error raised for text outside this subset. `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message


@dataclass(frozen=True)
class Symbol:
    """An unquoted word: an enum value, `true` or `false`."""

    name: str


@dataclass(frozen=True)
class Field:
    """A field of a message. A repeated field has one Field per value."""

    name: str
    value: Value


Message = tuple[Field, ...]
Value = str | int | Symbol | Message


def write(message: Message, *, indent: str = "") -> str:
    """Return the text of a message, with one line per field and blocks indented by two spaces."""
    return "".join(_lines(message, indent))


def read(text: str) -> Message:
    """Return the fields in file order. Raises TextprotoError if the syntax is invalid."""
    return _Reader(text).message(open_at=None)


def _lines(message: Message, indent: str) -> Iterator[str]:
    for field in message:
        if isinstance(field.value, tuple):
            yield f"{indent}{field.name} {{\n"
            yield from _lines(field.value, indent + "  ")
            yield f"{indent}}}\n"
        else:
            yield f"{indent}{field.name}: {_scalar(field.value)}\n"


def _scalar(value: str | int | Symbol) -> str:
    if isinstance(value, Symbol):
        return value.name
    if isinstance(value, int):
        return str(value)
    return '"' + "".join(map(_escaped, value)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character == "\n":
        return "\\n"
    if character == "\t":
        return "\\t"
    # Always write three octal digits, because a hexadecimal escape would absorb a following digit.
    return f"\\{ord(character):03o}" if ord(character) < 32 or ord(character) == 127 else character


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens = list(_tokens(text))
        self.position = 0

    def message(self, *, open_at: int | None) -> Message:
        """Read fields up to the closing brace of the block, or to the end if `open_at` is None."""
        fields: list[Field] = []
        while True:
            kind, text, line = self.tokens[self.position]
            if kind == "end" and open_at is not None:
                raise TextprotoError(open_at, "this block has no closing brace")
            if kind == "end" or (text == "}" and open_at is not None):
                return tuple(fields)
            if kind != "word":
                raise TextprotoError(line, f"{text} stands where a field's name should be")
            self.position += 1
            fields.append(Field(text, self.value(text, line)))
            if self.tokens[self.position][1] in (",", ";"):
                self.position += 1

    def value(self, name: str, line: int) -> Value:
        colon = self.tokens[self.position][1] == ":"
        self.position += colon
        kind, text, _ = self.tokens[self.position]
        if text == "{":
            self.position += 1
            inner = self.message(open_at=line)
            self.position += 1
            return inner
        if not colon:
            raise TextprotoError(line, f"'{name}' needs a colon and a value, or a block")
        self.position += 1
        if kind == "number":
            return int(text)
        if kind == "word":
            return Symbol(text)
        if kind == "text":
            return _unescaped(text, line) + "".join(self.pieces())
        raise TextprotoError(line, f"'{name}' has no value")

    def pieces(self) -> Iterator[str]:
        while self.tokens[self.position][0] == "text":
            _, text, line = self.tokens[self.position]
            self.position += 1
            yield _unescaped(text, line)


def _code_point(code: str) -> int:
    if code[0] == "x" and len(code) > 1:
        return int(code[1:], 16)
    return int(code, 8) if code[0] in "01234567" else sys.maxunicode


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    offset, line = 0, 1
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        if match is None:
            snippet = text[offset : offset + 20].split("\n", 1)[0]
            raise TextprotoError(line, f"cannot read '{snippet}'")
        assert match.lastgroup is not None
        if match.lastgroup != "space":
            yield match.lastgroup, match[0], line
        line += match[0].count("\n")
        offset = match.end()
    yield "end", "", line


def _unescaped(quoted: str, line: int) -> str:
    def plain(match: re.Match[str]) -> str:
        code = match[1]
        if code in _LETTERS:
            return _LETTERS[code]
        if code in _AS_THEY_ARE:
            return code
        number = _code_point(code)
        if number > 127:
            # In the text format, an octal escape is a byte, but `chr` would make it a code point.
            raise TextprotoError(line, f"cannot read the escape \\{code}; write the character")
        return chr(number)

    return _ESCAPE.sub(plain, quoted[1:-1])
