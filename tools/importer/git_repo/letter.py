# SPDX-License-Identifier: Apache-2.0
"""Write a patch for upstream's maintainers as a commit or an email, with reason and test plan."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tools.importer.engine import header_of
from tools.importer.git_repo.repository import Person
from tools.importer.series import Patch

# A zero commit id, as written by `git format-patch --zero-commit`, so that identical patches
# produce identical files.
_SEPARATOR = b"From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
_DATE = "Mon, 17 Sep 2001 00:00:00 +0000"

# Lines that mail tools would mistake for a header, the start of another message, or the diff.
_SPECIAL = re.compile(
    r"(?=>?From[ :]|Subject:|Date:|Content-|MIME-|diff -|Index: |---|-- $|\[PATCH)"
)


@dataclass(frozen=True)
class Letter:
    """The text and diff of a patch. `reason` is its prose; `headers` contains our header fields."""

    title: str
    reason: str
    test: str
    headers: str
    owner: str
    diff: bytes

    @property
    def body(self) -> str:
        """Return the body of a pull request: the reason and the test plan."""
        return "\n\n".join(part for part in (self.reason, f"Test plan:\n{self.test}") if part)

    def commit_message(self, person: Person) -> str:
        """Return a commit message for upstream, without our own headers but with a sign-off."""
        return f"{self.title}\n\n{self.body}\n\nSigned-off-by: {person}\n"


def letter_of(patch: Patch, data: bytes) -> Letter:
    """Parse a patch file into a `Letter`."""
    head = header_of(data)
    header, *rest = re.split(r"\n[ \t]*\n", head.decode("utf-8", "surrogateescape"), maxsplit=1)
    own = "\n".join(line for line in header.splitlines() if not line.startswith("Subject:"))
    return Letter(
        patch.header["Subject"],
        "".join(rest).strip(),
        patch.header["Test"],
        own,
        patch.header["Owner"],
        data[len(head) :].lstrip(b"\n"),
    )


def mbox(letter: Letter, *, with_headers: bool) -> bytes:
    """Return the patch as an email message, like `git format-patch` but deterministic.

    `with_headers` includes our own header fields in the text. `git am --keep-cr --keep-non-patch`
    then produces the same tree as the patch series. Without the first option, git loses CRLF line
    endings; without the second, it loses brackets in a subject.
    """
    text = f"{letter.body}\n\n{letter.headers}" if with_headers else letter.body
    lines = "".join(f"{_guarded(line)}\n" for line in text.splitlines())
    head = (
        f"From: {_sender(letter.owner)}\n"
        f"Date: {_DATE}\n"
        f"Subject: [PATCH] {letter.title}\n"
        "MIME-Version: 1.0\n"
        "Content-Type: text/plain; charset=UTF-8\n"
        "Content-Transfer-Encoding: 8bit\n"
        f"\n{lines}---\n\n"
    )
    return _SEPARATOR + head.encode("utf-8", "surrogateescape") + letter.diff


def _guarded(line: str) -> str:
    return _SPECIAL.sub(" ", line, count=1) if _SPECIAL.match(line) else line


def _sender(owner: str) -> str:
    """Return a patch's owner as an email sender.

    A sender needs an address, so an owner without one, such as a team, gets one at `@invalid`.
    """
    match = re.fullmatch(r"\s*(.*?)\s*<([^<>@\s]+@[^<>@\s]+)>\s*", owner)
    name, address = (match[1], match[2]) if match else (owner, "")
    if not address and re.fullmatch(r"[^<>@\s]+@[^<>@\s]+", owner):
        name, address = owner.split("@")[0], owner
    name = re.sub(r"[^\w .'-]", "", name).strip() or "owner"
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "owner"
    return f"{name} <{address or f'{slug}@invalid'}>"
