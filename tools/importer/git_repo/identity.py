# SPDX-License-Identifier: Apache-2.0
"""Read the commit author from the user's git configuration."""

from __future__ import annotations

import re

from tools.importer.errors import UserError
from tools.importer.git_repo.client import person_setting
from tools.importer.git_repo.repository import Person, Repository


def configured_person(repository: Repository) -> Person:
    """Return git's user.name and user.email. Raises UserError if either is not set."""
    values: list[str] = []
    for key, example in (("user.name", "Ada Lovelace"), ("user.email", "ada@example.org")):
        value = person_setting(repository.path, key)
        if value is None:
            raise UserError(
                f"{repository.path}: git's {key} is not set, and upstream takes no commit without "
                f'a Signed-off-by line. Run: git -C {repository.path} config {key} "{example}"'
            )
        values.append(value)
    return Person(*values)


def parse_person(text: str) -> Person:
    """Parse `Name <address>`. Raises UserError for any other form."""
    match = re.fullmatch(r"\s*([^<>\n]+?)\s*<([^<>\s]+)>\s*", text)
    if match is None:
        raise UserError(f"--author {text!r}: not a person. Write 'Name <address>'")
    return Person(match[1], match[2])
