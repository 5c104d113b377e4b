# SPDX-License-Identifier: Apache-2.0
"""Labels in the messages of vendoring commits, and the search for the latest of these commits.

    GitOrigin-RevId: cf30153c4c131c8164ee7798e5022d810682e2cb
    Imported-Project: torch
    Imported-Tag: v2.13.0
    Imported-At: third_party/py/torch
    Imported-Keep: torch/google/**
    Imported-Tree: <git tree ID of the imported files, excluding kept files>
    Series-Digest: <sha256 of the patch series>

Vendoring needs no state except these labels, so nothing is stored outside the repository.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tools.importer.git_repo.repository import Repository

_LINE = re.compile(r"([A-Z][A-Za-z-]+): (.*)")
# Characters with a special meaning in POSIX extended regular expressions.
_SPECIAL = re.compile(r"[][\\.^$*+?(){}|]")
# The number of matching commits to read at once. Reading only one may not be enough, because a
# commit may merely quote a label.
_PAGE = 50


@dataclass(frozen=True)
class Labels:
    """The labels of one commit. `revision` is None if the origin has no upstream commit id."""

    project: str
    tag: str
    destination: str
    keep: tuple[str, ...]
    tree: str
    series: str
    revision: str | None

    def text(self) -> str:
        """Return the labels as the last lines of a commit message."""
        rows = [("GitOrigin-RevId", self.revision)] if self.revision else []
        rows += [
            ("Imported-Project", self.project),
            ("Imported-Tag", self.tag),
            ("Imported-At", self.destination),
            *(("Imported-Keep", glob) for glob in self.keep),
            ("Imported-Tree", self.tree),
            ("Series-Digest", self.series),
        ]
        return "".join(f"{key}: {value}\n" for key, value in rows)


def parse_labels(message: str) -> Labels | None:
    """Return the labels in a commit message, or None if they are incomplete."""
    fields: dict[str, list[str]] = {}
    for line in message.splitlines():
        match = _LINE.fullmatch(line.rstrip())
        if match:
            fields.setdefault(match[1], []).append(match[2])
    try:
        return Labels(
            project=fields["Imported-Project"][-1],
            tag=fields["Imported-Tag"][-1],
            destination=fields["Imported-At"][-1],
            keep=tuple(fields.get("Imported-Keep", ())),
            tree=fields["Imported-Tree"][-1],
            series=fields["Series-Digest"][-1],
            revision=fields["GitOrigin-RevId"][-1] if "GitOrigin-RevId" in fields else None,
        )
    except KeyError:
        return None


@dataclass(frozen=True)
class Vendored:
    """The latest commit that vendored a tree to the destination."""

    commit: str
    labels: Labels


def last_vendored(repository: Repository, commit: str, destination: str) -> Vendored | None:
    """Return the newest commit in the history of `commit` whose labels name `destination`.

    Returns None if there is none.
    """
    label = _SPECIAL.sub(r"\\\g<0>", f"Imported-At: {destination}")
    skip = 0
    while True:
        out = repository.git.run(
            "log",
            "--format=%H%n%B",
            "-z",  # NUL separates messages, which contain blank lines
            "--extended-regexp",
            # Match the whole line, because our path may be a prefix of another destination's.
            f"--grep=^{label}[[:space:]]*$",
            f"--skip={skip}",
            f"--max-count={_PAGE}",
            commit,
            "--",
        )
        if not out:
            return None
        for text in out.decode("utf-8", "surrogateescape").split("\0"):
            name, _, message = text.lstrip("\n").partition("\n")
            labels = parse_labels(message)
            if labels and labels.destination == destination:
                return Vendored(name, labels)
        skip += _PAGE
