# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.importer.errors import UserError
from tools.importer.metadata.metadata_file import (
    LicenseType,
    Metadata,
    Url,
    UrlType,
    load_metadata,
    loads,
)
from tools.par.testing.budget import examples

_HOME = Url(UrlType.HOMEPAGE, "https://zlib.net")
_ZLIB = Metadata(
    "zlib",
    "Deflate.",
    (_HOME, Url(UrlType.ARCHIVE, "https://example.com/zlib-1.tar.gz")),
    "1.2.13",
    datetime.date(2026, 11, 20),
    LicenseType.NOTICE,
    "Zlib",
)
_TODAY = datetime.date(2027, 1, 2)


@settings(max_examples=examples(80), deadline=None)
@given(
    st.builds(
        Metadata,
        st.text(max_size=8),
        st.text(max_size=8),
        st.lists(st.builds(Url, st.sampled_from(UrlType), st.text(max_size=8)), max_size=3).map(
            tuple
        ),
        st.text(max_size=8),
        st.dates(),
        st.sampled_from(LicenseType),
        st.text(max_size=8),
        st.text(max_size=8),
    )
)
def test_what_is_written_reads_back(data: Metadata) -> None:
    assert loads(data.dumps().decode()) == data


def test_the_layout() -> None:
    text = _ZLIB.dumps().decode()
    comment, _, body = text.partition("\n\n")
    assert "tools/import.py metadata" in comment
    assert body == (
        'name: "zlib"\ndescription: "Deflate."\nthird_party {\n'
        '  url {\n    type: HOMEPAGE\n    value: "https://zlib.net"\n  }\n'
        '  url {\n    type: ARCHIVE\n    value: "https://example.com/zlib-1.tar.gz"\n  }\n'
        '  version: "1.2.13"\n'
        "  last_upgrade_date {\n    year: 2026\n    month: 11\n    day: 20\n  }\n"
        '  license_type: NOTICE\n  license_note: "Zlib"\n}\n'
    )


def test_the_date_moves_with_the_version_only() -> None:
    other = (Url(UrlType.ARCHIVE, "https://example.com/elsewhere.tar.gz"),)
    same = _ZLIB.at("1.2.13", other, modifications="", today=_TODAY)
    assert same.last_upgrade == _ZLIB.last_upgrade
    assert same.urls == (_HOME, *other)
    moved = _ZLIB.at("1.3", other, modifications="patches/zlib", today=_TODAY)
    assert (moved.version, moved.last_upgrade) == ("1.3", _TODAY)
    assert moved.local_modifications == "patches/zlib"
    assert (moved.description, moved.license_note) == (_ZLIB.description, _ZLIB.license_note)


def test_a_file_just_begun(tmp_path: Path) -> None:
    file = tmp_path / "METADATA"
    file.write_text('name: "x" description: "y" third_party { license_type: NOTICE }')
    begun = load_metadata(file)
    assert begun.at("1", (), modifications="", today=_TODAY).last_upgrade == _TODAY


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("NOTICE", "SOMETIMES", "METADATA: 'SOMETIMES' is not a valid LicenseType"),
        ('description: "Deflate."\n', "", "the file has no 'description'"),
        ("month: 11", "month: 13", "METADATA: month must be in 1..12"),
        ('version: "1.2.13"', "version: 1", "'version' in third_party is not a text"),
        (
            '  version: "1.2.13"',
            '  revision: "1"',
            "third_party has no field 'revision', only url, ",
        ),
        ('name: "zlib"', 'name: "zlib" name: "z"', "the file has 'name' twice"),
        ("third_party {", "third_party", r"METADATA:6: 'third_party' needs a colon"),
        ("last_upgrade_date {", "last_upgrade_date: 3 #", "METADATA:"),
    ],
)
def test_refusals_name_the_file(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "METADATA"
    text = _ZLIB.dumps().decode()
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(UserError, match=message) as raised:
        load_metadata(file)
    assert "\n" not in str(raised.value)


def test_a_missing_file_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"METADATA: no such file\. Write one with name"):
        load_metadata(tmp_path / "METADATA")
