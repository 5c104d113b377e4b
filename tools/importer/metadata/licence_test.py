# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.importer.errors import UserError
from tools.importer.metadata.licence import (
    LicenceRecord,
    check_licence,
    licence_file,
    load_record,
    words_digest,
)
from tools.importer.project import Project
from tools.importer.snapshot import SYMLINK, Blob, DictSnapshot
from tools.par.testing.budget import examples

_TEXT = b"Copyright (c) 2016 Somebody\n\nYou may do\nwhat you like.\n"
_OTHER = b"Copyright (c) 2016 Somebody\n\nYou may do\nwhat we like.\nPay first.\n"


class Tree(DictSnapshot):
    """A snapshot of a few files, from an origin that can contain only the paths in `carried`."""

    def __init__(
        self,
        label: str,
        files: Mapping[str, Blob],
        carried: Collection[str] = ("LICENSE", "NOTICE"),
    ) -> None:
        super().__init__(label, files)
        self._carried = carried

    def carries(self, path: str) -> bool:
        return path in self._carried


def _tree(label: str, carried: Collection[str] = ("LICENSE", "NOTICE"), **files: bytes) -> Tree:
    return Tree(label, {path: Blob(data) for path, data in files.items()}, carried)


def _record(**texts: bytes) -> LicenceRecord:
    return LicenceRecord({path: words_digest(text) for path, text in texts.items()})


_SPACE = st.text(alphabet=" \t\r\n", min_size=1, max_size=3).map(str.encode)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=6), st.data())
def test_white_space_never_stops(words: list[str], data: st.DataObject) -> None:
    first, second = (
        b"".join(word.encode() + data.draw(_SPACE) for word in words) for _ in range(2)
    )
    record = _record(LICENSE=first)
    new = _tree("v2", LICENSE=second)
    assert check_licence(None, new, recorded=record, acknowledged=False) == record


@settings(max_examples=examples(60), deadline=None)
@given(st.binary(max_size=12), st.binary(max_size=12))
def test_any_other_change_stops_with_one_line(first: bytes, second: bytes) -> None:
    old, new = _tree("v1", LICENSE=first), _tree("v2", LICENSE=second)
    if words_digest(first) == words_digest(second):
        assert not check_licence(old, new, recorded=None, acknowledged=False).changes
        return
    with pytest.raises(UserError, match="LICENSE: .* from v1 to v2: line ") as raised:
        check_licence(old, new, recorded=_record(LICENSE=first), acknowledged=False)
    assert "\n" not in str(raised.value)
    assert "\r" not in str(raised.value)


def test_the_message_shows_the_change_and_the_next_step() -> None:
    old, new = _tree("v1", LICENSE=_TEXT), _tree("v2", LICENSE=_OTHER)
    with pytest.raises(UserError) as raised:
        check_licence(old, new, recorded=_record(LICENSE=_TEXT), acknowledged=False)
    assert str(raised.value) == (
        "LICENSE: the licence text changed from v1 to v2: line 4: "
        '"what you like." -> "what we like. / Pay first." (in all -1 +2 lines). Read it, correct '
        "license_type and license_note in METADATA if they changed, then run again with "
        "--acknowledge-licence"
    )


def test_a_year_stops_too() -> None:
    new = _tree("v2", LICENSE=_TEXT.replace(b"2016", b"2017"))
    with pytest.raises(UserError, match='"Copyright .c. 2016 Somebody" -> "Copyright .c. 2017'):
        check_licence(_tree("v1", LICENSE=_TEXT), new, recorded=None, acknowledged=False)


def test_an_acknowledged_text_is_recorded_and_told() -> None:
    old, new = _tree("v1", LICENSE=_TEXT), _tree("v2", LICENSE=_OTHER)
    record = check_licence(old, new, recorded=_record(LICENSE=_TEXT), acknowledged=True)
    assert record == _record(LICENSE=_OTHER)
    (change,) = record.changes
    assert change.endswith(": acknowledged")
    again = check_licence(None, new, recorded=record, acknowledged=False)
    assert (again, again.changes) == (record, ())


@pytest.mark.parametrize("old", [None, _tree("v1", LICENSE=b"neither text")])
def test_without_the_old_text_the_hashes_are_told(old: Tree | None) -> None:
    recorded = _record(LICENSE=_TEXT)
    with pytest.raises(UserError, match="another licence text than the recorded one") as raised:
        check_licence(old, _tree("v2", LICENSE=_OTHER), recorded=recorded, acknowledged=False)
    assert words_digest(_TEXT)[:12] in str(raised.value)


def test_a_file_that_is_gone_or_new_upstream_stops() -> None:
    full, bare = _tree("v1", LICENSE=_TEXT, NOTICE=_OTHER), _tree("v2", LICENSE=_TEXT)
    recorded = _record(LICENSE=_TEXT, NOTICE=_OTHER)
    with pytest.raises(UserError, match="NOTICE: v2 has no such file any more"):
        check_licence(full, bare, recorded=recorded, acknowledged=False)
    with pytest.raises(UserError, match='NOTICE: new in v1, it begins "Copyright'):
        check_licence(bare, full, recorded=_record(LICENSE=_TEXT), acknowledged=False)
    assert check_licence(full, bare, recorded=recorded, acknowledged=True) == _record(LICENSE=_TEXT)


def test_what_an_origin_does_not_carry_is_no_change() -> None:
    wheel = _tree("v2", carried=("LICENSE",), LICENSE=_TEXT)
    source = _tree("v3", LICENSE=_TEXT, NOTICE=_OTHER)
    recorded = _record(LICENSE=_TEXT, NOTICE=_OTHER)
    assert check_licence(source, wheel, recorded=recorded, acknowledged=False) == recorded
    first = check_licence(wheel, source, recorded=_record(LICENSE=_TEXT), acknowledged=False)
    assert first == recorded
    assert first.changes == ("NOTICE: first seen in v3, recorded",)


def test_a_link_counts_as_the_text_behind_it() -> None:
    files = {"LICENSE": Blob(b"docs/../docs/COPYING", SYMLINK), "docs/COPYING": Blob(_TEXT)}
    recorded = _record(LICENSE=_TEXT)
    new = Tree("v2", files)
    assert check_licence(None, new, recorded=recorded, acknowledged=False) == recorded
    loop = Tree("v3", {"LICENSE": Blob(b"LICENSE", SYMLINK)})
    with pytest.raises(UserError, match="LICENSE: v3 has no such file"):
        check_licence(None, loop, recorded=recorded, acknowledged=False)


def test_the_record_is_kept_beside_metadata(tmp_path: Path) -> None:
    room = tmp_path / "third_party" / "x"
    room.mkdir(parents=True)
    project = Project(tmp_path, "x", room / "pin.json", tmp_path, room / "METADATA", {})
    assert load_record(project) is None
    record = _record(LICENSE=_TEXT, NOTICE=_OTHER)
    licence_file(project).write_bytes(record.dumps())
    assert licence_file(project) == room / "licence.json"
    assert load_record(project) == record
    licence_file(project).write_text("{}")
    with pytest.raises(UserError, match=r"licence\.json: no object"):
        load_record(project)
