# SPDX-License-Identifier: Apache-2.0
"""Quote and unquote file names in diffs, and check the paths that a patch may touch."""

from __future__ import annotations

import itertools
import re

_ESCAPE = re.compile(rb"\\([abfnrtv\"\\]|[0-3][0-7]{2})")
_QUOTED = re.compile(rb"\"(?:[^\"\\]|" + _ESCAPE.pattern + rb")*\"")
_CONTROLS = {
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
    b'"': b'"',
    b"\\": b"\\",
}
_LETTERS = {value: key for key, value in _CONTROLS.items()}


class NameProblem(ValueError):
    """The error raised for a name that no patch may use. The message states the name and reason."""


def unquote(name: bytes) -> bytes:
    """Return a name from a diff without the quotes and escapes that git adds.

    Raises NameProblem for a quoted name with an escape that git never writes, because git would
    keep the quotes and use a different file.
    """
    if len(name) < 2 or name[:1] != b'"' or name[-1:] != b'"':
        return name
    if _QUOTED.fullmatch(name) is None:
        raise NameProblem(f"'{shown(name)}' is not a quoted name; git writes a byte as \\ooo")
    return _ESCAPE.sub(
        lambda match: _CONTROLS.get(match[1]) or bytes([int(match[1], 8)]), name[1:-1]
    )


def quote(name: bytes) -> bytes:
    """Return a name as git writes it in a diff, quoted unless it is plain ASCII."""
    if not any(byte < 32 or byte > 126 or byte in b'"\\' for byte in name):
        return name
    out = bytearray(b'"')
    for byte in name:
        char = bytes([byte])
        if char in _LETTERS:
            out += b"\\" + _LETTERS[char]
        elif byte < 32 or byte > 126:
            out += b"\\%03o" % byte
        else:
            out += char
    return bytes(out + b'"')


def shown(name: bytes | str, *, limit: int = 200) -> str:
    """Return untrusted text as one printable line of at most `limit` characters, for a message."""
    if isinstance(name, str) and len(name) <= limit and name.isprintable():
        return name
    data = name.encode("utf-8", "surrogateescape") if isinstance(name, str) else name
    text = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in data[: 4 * limit].decode("utf-8", "backslashreplace")
    )
    return text if len(text) <= limit else f"{text[:limit]}..."


def plain_path(name: bytes) -> str:
    """Decode a relative path. Raises NameProblem if it may leave the tree or enter `.git`.

    Bytes that are not UTF-8 become surrogates, as in Python's file functions.
    """
    path = name.decode("utf-8", "surrogateescape")
    parts = path.split("/")
    if path.startswith("/") or not all(parts) or ".." in parts or "." in parts or "\0" in path:
        raise NameProblem(f"'{shown(name)}' is not a plain path below the tree")
    if ".git" in (part.lower() for part in parts):
        raise NameProblem(f"'{shown(name)}' is inside a '.git' directory, which no patch may touch")
    return path


def escapes(path: str, target: str) -> bool:
    """Return whether a symlink at `path` with this `target` may point outside the tree.

    It may if `..` follows a name, because that name may itself be a symlink, and `..` is then the
    parent of its target.
    """
    parts = [part for part in target.split("/") if part not in ("", ".")]
    climbs = len(parts) - len(list(itertools.dropwhile(lambda part: part == "..", parts)))
    return target.startswith("/") or climbs > path.count("/") or ".." in parts[climbs:]
