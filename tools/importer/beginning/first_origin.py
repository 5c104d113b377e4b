# SPDX-License-Identifier: Apache-2.0
"""Parse the --origin option of `init` into the origin's kind, its settings and the release."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.importer.errors import UserError
from tools.importer.origins import is_repository

_PACKAGE = re.compile(r"(pypi|sdist|wheel|debian):([A-Za-z0-9][A-Za-z0-9._-]*)(?:==(\S+))?")
_KINDS = {"pypi": "sdist", "sdist": "sdist", "wheel": "wheel", "debian": "debian"}
_FORMS = (
    "pypi:NAME==VERSION, wheel:NAME==VERSION, debian:PACKAGE==VERSION, a git URL, an archive or a"
    " directory"
)


@dataclass(frozen=True)
class FirstOrigin:
    """An origin: its `kind` and `settings` in import.json, and its release.

    `origin` selects the origin of the first import; None if the settings alone identify it.
    """

    kind: str
    settings: Mapping[str, str]
    tag: str
    tags: str = "v{version}"
    origin: str | None = None
    moves: Mapping[str, str] = field(default_factory=dict)

    @property
    def origins(self) -> dict[str, dict[str, str]]:
        """Return `origins` for import.json; empty if each import must specify an origin."""
        return {self.kind: dict(self.settings)} if self.settings else {}


def parse_origin(text: str, tag: str | None, tags: str | None, cwd: Path) -> FirstOrigin:
    """Parse `text` as an origin. Raises UserError if it is invalid or specifies no release."""
    match = _PACKAGE.fullmatch(text)
    if match:
        scheme, name, version = match.groups()
        pattern = tags or _pattern(tag, version)
        if version is None and tag is None:
            raise UserError(f"--origin {text}: names no release. Write {scheme}:{name}==VERSION")
        if scheme == "debian" and version is not None and "-" in version:
            upstream = version.rpartition("-")[0].rpartition(":")[2]
            raise UserError(
                f"--origin {text}: {version} has Debian's revision. Write upstream's version:"
                f" debian:{name}=={upstream}"
            )
        if version is not None:
            tag = tag or pattern.replace("{version}", version).replace("*", version)
        key = "package" if scheme == "debian" else "project"
        return FirstOrigin(_KINDS[scheme], {key: name}, tag or "", pattern, _KINDS[scheme])
    if tag is None:
        raise UserError(f"--origin {text}: give its release with --tag. Origins are {_FORMS}")
    pattern = tags or _pattern(tag, None)
    if text.startswith("git+") or "://" in text:
        return FirstOrigin("git", {"url": text.removeprefix("git+")}, tag, pattern, "git")
    path = Path(os.path.abspath(cwd / text))
    if not path.exists():
        raise UserError(f"--origin {text}: no such path. Origins are {_FORMS}")
    if is_repository(path):
        return FirstOrigin("git", {"url": os.fspath(path)}, tag, pattern, "git")
    kind = "directory" if path.is_dir() else "archive"
    settings = {"path": _with_release(os.fspath(path), tag, pattern)}
    if settings["path"] == os.fspath(path):
        settings = {}  # the path does not contain the release, so each import needs a new path
    return FirstOrigin(kind, settings, tag, pattern, os.fspath(path))


def _pattern(tag: str | None, version: str | None) -> str:
    """Return `tag` with its version replaced by {version}, or v{version} if `tag` is None."""
    if tag is None:
        return "v{version}"
    match = re.search(re.escape(version) if version else r"\d[\w.]*$", tag)
    if match is None:
        raise UserError(f"--tag {tag}: no version in it. Give the pattern: --tags 'v{{version}}'")
    return f"{tag[: match.start()]}{{version}}{tag[match.end() :]}"


def _with_release(path: str, tag: str, pattern: str) -> str:
    """Replace the tag or version in the last component of `path` by {tag} or {version}."""
    directory, slash, name = path.rpartition("/")
    before, _, after = pattern.partition("{version}")
    version = tag.removeprefix(before).removesuffix(after)
    for text, mark in ((tag, "{tag}"), (version, "{version}")):
        if text and text in name:
            return f"{directory}{slash}{name.replace(text, mark)}"
    return path
