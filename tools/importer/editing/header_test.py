# SPDX-License-Identifier: Apache-2.0
"""Test headers with placeholders to fill in, and file names derived from subjects."""

from __future__ import annotations

import pytest

from tools.importer.editing.header import new_header, patch_name, with_subject
from tools.importer.errors import UserError
from tools.importer.series import SeriesError, parse_header

_ALL = {
    "Owner": "packaging",
    "Reason": "build",
    "Upstream": "None yet",
    "Extension-point-considered": "none",
    "Test": "x_test.py",
}


def test_a_new_header_is_refused_until_it_is_filled_in() -> None:
    fields = dict(_ALL)
    for key in _ALL:
        del fields[key]
        with pytest.raises(SeriesError, match=key):
            parse_header(new_header("Say more", fields).decode(), "p")
        fields[key] = _ALL[key]
    full = new_header("Say more", {**_ALL, "Expires": "2030-01-01"}).decode()
    assert parse_header(full, "p") == {**_ALL, "Subject": "Say more", "Expires": "2030-01-01"}


@pytest.mark.parametrize("bad", ["", " ", "a\nb", "a\rb"])
def test_one_line_each(bad: str) -> None:
    with pytest.raises(UserError, match="Subject"):
        new_header(bad, {})
    if bad:
        with pytest.raises(UserError, match="Owner"):
            new_header("Say more", {"Owner": bad})
    with pytest.raises(UserError, match="Subject"):
        with_subject(b"Subject: x\n", bad)


def test_another_subject_takes_the_whole_old_one_away() -> None:
    old = b"Owner: x\nSubject: a long\n  subject\nTest: y\n\nSubject: prose\n"
    assert (
        with_subject(old, "short \\1")
        == b"Owner: x\nSubject: short \\1\nTest: y\n\nSubject: prose\n"
    )


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("Say new where upstream says old", "say-new-where-upstream-says-old.patch"),
        ("[inductor] Don't probe: it's slow!", "inductor-don-t-probe-it-s-slow.patch"),
        ("a " * 40, "a-" * 24 + "a.patch"),
        ("x" * 80, "x" * 50 + ".patch"),
    ],
)
def test_names(subject: str, name: str) -> None:
    assert patch_name(subject) == name


def test_a_subject_without_letters() -> None:
    with pytest.raises(UserError, match="no file name can be made from the subject '…'"):
        patch_name("…")
