# SPDX-License-Identifier: Apache-2.0
"""Create the header and the file name of a new patch."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tools.importer.errors import UserError
from tools.importer.series import OPTIONAL, REQUIRED, TEMPLATE

_LONGEST = 50


def new_header(subject: str, values: Mapping[str, str]) -> bytes:
    """Return a patch header, with a placeholder for each field missing from `values`.

    A patch series that still contains a placeholder fails validation. Raises UserError unless the
    subject and each value have exactly one line.
    """
    fields = {"Subject": subject, **{key: value for key, value in values.items() if value}}
    for key, value in fields.items():
        if not value.strip() or len(value.splitlines()) != 1:
            raise UserError(f"{key} is {value!r}. Give it in one line of text")
    keys = (*REQUIRED, *(key for key in OPTIONAL if key in fields))
    return "".join(f"{key}: {fields.get(key) or TEMPLATE[key]}\n" for key in keys).encode()


def with_subject(header: bytes, subject: str) -> bytes:
    """Replace the subject in a header, including its continuation lines."""
    if len(subject.splitlines()) != 1 or not subject.strip():
        raise UserError(f"Subject is {subject!r}. Give it in one line of text")
    line = b"Subject: " + subject.strip().encode()
    return re.sub(
        rb"^Subject:.*(?:\n[ \t].*)*", lambda _: line, header, count=1, flags=re.MULTILINE
    )


def patch_name(subject: str) -> str:
    """Return the subject in kebab case as a file name, cut at a word boundary if it is too long.

    Raises UserError if the subject has no letter or digit.
    """
    words = re.findall(r"[a-z0-9]+", subject.lower())
    name = ""
    for word in words:
        if name and len(name) + 1 + len(word) > _LONGEST:
            break
        name = f"{name}-{word}" if name else word[:_LONGEST]
    if not name:
        raise UserError(
            f"no file name can be made from the subject {subject!r}. Give one with --name"
        )
    return f"{name}.patch"
