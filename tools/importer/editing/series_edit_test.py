# SPDX-License-Identifier: Apache-2.0
"""Change a patch in the middle: later patches keep their effect or need manual resolution."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.importer.editing.patch_change import changed_patch, new_patch, refuse_absent
from tools.importer.editing.publication import publication
from tools.importer.editing.release import Release
from tools.importer.editing.sample_release import (
    UPSTREAM,
    header,
    make_project,
    make_release,
    reopened,
    with_lines,
)
from tools.importer.editing.series_edit import Kind, SeriesEdit, position_of, rebase, tree_up_to
from tools.importer.engine import Change, Outcome, Resolved, record_base, render_patch
from tools.importer.errors import UserError
from tools.importer.project import Project
from tools.importer.series import load_series
from tools.importer.snapshot import Blob, DictSnapshot
from tools.par.testing.budget import examples

_A = UPSTREAM["torch/a.py"]
_ONE = with_lines(_A, line_5="first")
_TWO = with_lines(_ONE, line_15="second")
_THREE = with_lines(_TWO, line_25="third")


@pytest.fixture(name="project")
def _project(tmp_path: Path) -> Project:
    return make_project(tmp_path)


@pytest.fixture(name="release")
def _release(project: Project) -> Release:
    steps = [
        ("first", {"torch/a.py": _ONE}),
        ("second", {"torch/a.py": _TWO, "torch/new.py": Blob(b"new\n")}),
        ("third", {"torch/a.py": _THREE}),
    ]
    return make_release(project, steps)


def _replace(release: Release, name: str, edits: Mapping[str, Blob | None]) -> SeriesEdit:
    data = changed_patch(release, position_of(release.series, name), None, edits)
    return SeriesEdit(Kind.REPLACE, release.label, release.series.digest, f"{name}.patch", data)


def _published(project: Project, release: Release, files: Mapping[str, bytes] | None) -> Release:
    """Write the files to the workspace, as a command would, and read them back."""
    assert files is not None
    for path, data in publication(project, release, files, _no_wheel).files.items():
        if data is None:
            (project.workspace / path).unlink()
        else:
            (project.workspace / path).write_bytes(data)
    return reopened(release.directory)


def _no_wheel() -> Path:
    raise AssertionError("the build is of another release")


def _tree(release: Release) -> dict[str, Blob | None]:
    return tree_up_to(release, len(release.series.patches))


def test_nothing_changed_gives_the_same_bytes(release: Release) -> None:
    for index, patch in enumerate(release.series.patches):
        data = (release.directory / patch.name).read_bytes()
        assert changed_patch(release, index, None, {}) == data
        edit = SeriesEdit(Kind.REPLACE, release.label, release.series.digest, patch.name, data)
        files = rebase(release, edit).files
        assert files is not None
        assert {name: (release.directory / name).read_bytes() for name in files} == files


def test_a_patch_in_the_middle_changes_and_later_ones_follow(
    project: Project, release: Release
) -> None:
    # The edit shifts the third patch's hunk by adding a line above it.
    grown = Blob(_TWO.data.replace(b"second\n", b"second\nand a half\n"))
    rebased = rebase(release, _replace(release, "second", {"torch/a.py": grown}))
    assert [result.outcome for result in rebased.carried.results] == [Outcome.OFFSET]
    after = _published(project, release, rebased.files)
    assert _tree(after) == {
        "torch/a.py": Blob(_THREE.data.replace(b"second\n", b"second\nand a half\n")),
        "torch/new.py": Blob(b"new\n"),
    }
    assert (release.directory / "first.patch").read_bytes() in (rebased.files or {}).values()
    assert b"@@ -25,3 +25,3 @@" in (after.directory / "third.patch").read_bytes()
    assert (after.directory / "series").read_text().startswith("# The order.\n")


def test_adds_deletions_modes_and_renames(project: Project, release: Release) -> None:
    edits = {
        "torch/b.py": None,
        "torch/c.py": Blob(b"b = 1\nb = 2\nb = three\n"),
        "torch/new.py": None,
        "torch/run": Blob(UPSTREAM["torch/run"].data),
        "torch/data.bin": Blob(b"\0\3"),
    }
    rebased = rebase(release, _replace(release, "second", edits))
    assert rebased.files is not None
    text = rebased.files["second.patch"]
    assert b"rename from torch/b.py\nrename to torch/c.py\n" in text
    assert b"old mode 100755\nnew mode 100644\n" in text
    assert b"torch/new.py" not in text
    assert text.index(b"torch/a.py") < text.index(b"torch/b.py")
    tree = _tree(_published(project, release, rebased.files))
    for path, blob in edits.items():
        assert tree.get(path) == blob


def test_a_conflict_waits_for_a_decision(project: Project, release: Release) -> None:
    edit = _replace(release, "first", {"torch/a.py": with_lines(_ONE, line_15="mine")})
    rebased = rebase(release, edit)
    assert rebased.files is None
    stopped = rebased.carried.stopped
    assert stopped is not None
    assert (stopped.patch.name, stopped.outcome) == ("second.patch", Outcome.CONFLICT)
    settled = Resolved({"torch/a.py": with_lines(_ONE, line_15="both")})
    rebased = rebase(release, edit, {"second.patch": settled})
    tree = _tree(_published(project, release, rebased.files))
    assert tree["torch/a.py"] == with_lines(_THREE, line_15="both")


def test_a_later_patch_that_is_taken_in_leaves_the_series(
    project: Project, release: Release
) -> None:
    rebased = rebase(
        release, _replace(release, "first", {"torch/a.py": with_lines(_ONE, line_25="third")})
    )
    assert [result.outcome for result in rebased.carried.results] == [
        Outcome.CLEAN,
        Outcome.LANDED,
    ]
    after = _published(project, release, rebased.files)
    assert [patch.name for patch in after.series.patches] == ["first.patch", "second.patch"]
    assert _tree(after) == _tree(release)
    assert not (release.directory / "third.patch").exists()


def test_a_new_patch_in_the_middle(project: Project, release: Release) -> None:
    edits = {"torch/a.py": with_lines(_ONE, line_35="new")}
    data = new_patch(release, "more.patch", 1, header("More"), edits)
    edit = SeriesEdit(
        Kind.INSERT, release.label, release.series.digest, "more.patch", data, "first.patch"
    )
    assert SeriesEdit.from_json(edit.as_json()) == edit
    after = _published(project, release, rebase(release, edit).files)
    assert [patch.name for patch in after.series.patches] == [
        "first.patch",
        "more.patch",
        "second.patch",
        "third.patch",
    ]
    assert _tree(after)["torch/a.py"] == with_lines(_THREE, line_35="new")


def test_the_first_patch_of_all(project: Project, release: Release) -> None:
    data = new_patch(release, "zero.patch", 0, header("Zero"), {"torch/b.py": Blob(b"b = 0\n")})
    edit = SeriesEdit(Kind.INSERT, release.label, release.series.digest, "zero.patch", data)
    after = _published(project, release, rebase(release, edit).files)
    assert after.series.patches[0].name == "zero.patch"


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_patch_dropped_and_put_back_is_the_same(project: Project, index: int) -> None:
    b = UPSTREAM["torch/b.py"]
    release = make_release(
        project,
        [
            ("first", {"torch/a.py": _ONE}),
            ("second", {"torch/a.py": _TWO}),
            ("third", {"torch/b.py": with_lines(b, line_2="b = two")}),
        ],
    )
    before = {file.name: file.read_bytes() for file in release.directory.iterdir()}
    patch = release.series.patches[index]
    drop = SeriesEdit(Kind.DROP, release.label, release.series.digest, patch.name)
    without = _published(project, release, rebase(release, drop).files)
    assert patch.name not in {file.name for file in release.directory.iterdir()}
    insert = SeriesEdit(
        Kind.INSERT,
        release.label,
        without.series.digest,
        patch.name,
        before[patch.name],
        release.series.patches[index - 1].name if index else None,
    )
    _published(project, without, rebase(without, insert).files)
    assert {file.name: file.read_bytes() for file in release.directory.iterdir()} == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"digest": "0" * 64}, "the series changed since second.patch was begun"),
        ({"data": header("No diff")}, "second.patch: no diff in it"),
        ({"name": "secnd.patch"}, "no patch 'secnd.patch'. Did you mean second.patch"),
    ],
)
def test_what_cannot_be_done(release: Release, change: dict[str, object], message: str) -> None:
    row = {**_replace(release, "second", {"torch/b.py": None}).as_json(), **change}
    data = change.get("data")
    edit = SeriesEdit.from_json({**row, "data": None})
    if data is not None:
        assert isinstance(data, bytes)
        edit = SeriesEdit(edit.kind, edit.label, edit.digest, edit.name, data)
    with pytest.raises(UserError, match=message) as raised:
        rebase(release, edit)
    assert "\n" not in str(raised.value)
    if data is not None:
        assert str(release.directory) in str(raised.value)


def test_a_patch_that_would_change_nothing(release: Release) -> None:
    undone = {"torch/a.py": _A}
    with pytest.raises(
        UserError, match=r"first.patch: it would change nothing. .*`import.py abort`"
    ):
        changed_patch(release, 0, None, undone)


def test_a_header_alone_can_change(release: Release) -> None:
    old = (release.directory / "first.patch").read_bytes()
    new = changed_patch(release, 0, header("Another subject"), {})
    assert new == old.replace(b"Patch first", b"Another subject")


@settings(max_examples=examples(30), deadline=None)
@given(
    index=st.integers(0, 2),
    lines=st.lists(
        st.tuples(st.sampled_from([1, 2, 9, 10, 11, 19, 20, 21, 31, 32, 40]), st.integers(0, 2)),
        unique_by=lambda pair: pair[0],
    ),
)
def test_edits_away_from_other_patches_are_all_that_changes(
    tmp_path_factory: pytest.TempPathFactory, index: int, lines: list[tuple[int, int]]
) -> None:
    """Edit one patch, removing or repeating lines that no other patch touches.

    The patched tree changes only in these lines.
    """
    project = make_project(tmp_path_factory.mktemp("workspace"))
    release = make_release(
        project,
        [
            ("first", {"torch/a.py": _ONE}),
            ("second", {"torch/a.py": _TWO}),
            ("third", {"torch/a.py": _THREE}),
        ],
    )

    def edited(blob: Blob) -> Blob:
        text = blob.data.decode()
        for number, count in lines:
            text = text.replace(f"line {number}\n", f"line {number}\n" * count)
        return Blob(text.encode())

    patch = release.series.patches[index].name
    now = [_ONE, _TWO, _THREE][index]
    edit = _replace(release, patch.removesuffix(".patch"), {"torch/a.py": edited(now)})
    after = _published(project, release, rebase(release, edit).files)
    assert _tree(after) == {"torch/a.py": edited(_THREE)}
    assert [each.name for each in after.series.patches] == [
        each.name for each in release.series.patches
    ]


@pytest.mark.parametrize(
    ("line", "refused"),
    [("text = open(__file__ + '.txt').read()", True), ("text = 'quiet'", False)],
)
def test_what_rules_guard_does_not_slip_in_by_an_edit(
    project: Project, release: Release, line: str, refused: bool
) -> None:
    """A hand-written patch must not add a call that the series' rewrite rules reject."""
    first = release.directory / "first.patch"
    first.write_bytes(first.read_bytes().replace(b"Test:", b"Rewrite: packed-resources\nTest:"))
    release = reopened(release.directory)
    edit = _replace(release, "third", {"torch/b.py": Blob(f"{line}\n".encode())})
    files = rebase(release, edit).files
    assert files is not None
    if refused:
        with pytest.raises(UserError, match="1 left on a path from __file__: torch/b.py:1"):
            publication(project, release, files, _no_wheel)
    else:
        assert publication(project, release, files, _no_wheel).pinned is None


def test_later_patches_follow_a_file_that_an_edit_moves(project: Project, release: Release) -> None:
    edits = {"torch/a.py": None, "torch/moved.py": _ONE}
    rebased = rebase(release, _replace(release, "first", edits))
    assert [result.outcome for result in rebased.carried.results] == [Outcome.OFFSET] * 2
    after = _published(project, release, rebased.files)
    tree = _tree(after)
    assert tree["torch/a.py"] is None
    assert tree["torch/moved.py"] == _THREE
    assert b"rename from torch/a.py" in (after.directory / "first.patch").read_bytes()


def test_odd_names_and_bytes_survive(project: Project, release: Release) -> None:
    edits = {
        "torch/b.py": Blob(b"crlf\r\nno newline"),
        "torch/with space": Blob(b"x"),
        'torch/"quoted"\n': Blob(b"\xff\xfe\n"),
        "torch/\udcff": Blob(b"\0binary"),
        "torch/link": Blob(b"b.py", "120000"),
        "torch/empty": Blob(b""),
    }
    tree = _tree(
        _published(project, release, rebase(release, _replace(release, "second", edits)).files)
    )
    assert {path: tree[path] for path in edits} == edits


@pytest.mark.parametrize("target", [b"/etc/passwd", b"../../x"])
def test_a_link_out_of_the_tree_is_refused(release: Release, target: bytes) -> None:
    edit = _replace(release, "second", {"torch/link": Blob(target, "120000")})
    with pytest.raises(UserError, match="leads out of the tree"):
        rebase(release, edit)


class _Half(DictSnapshot):
    """A snapshot from an origin that has no files under test/."""

    def carries(self, path: str) -> bool:
        return not path.startswith("test/")


def test_patches_of_files_that_the_origin_lacks_are_kept(project: Project) -> None:
    steps = [("first", {"torch/a.py": _ONE}), ("second", {"torch/a.py": _TWO})]
    release = make_release(project, steps)
    test = render_patch(
        header("Test"), [Change("test/x", "test/x", Blob(b"old\n"), Blob(b"new\n"))]
    )
    (release.directory / "test.patch").write_bytes(test)
    (release.directory / "series").write_text("first.patch\ntest.patch\nsecond.patch\n")
    half = _Half(release.label, UPSTREAM)
    series = load_series(release.directory)
    release = dataclasses.replace(
        release, series=series, base=record_base(series, half), snapshot=half
    )
    with pytest.raises(UserError, match="test.patch: touches test/x, which the origin of v1.0"):
        refuse_absent(release, series.patches[1])
    grown = Blob(b"zero\n" + _ONE.data)
    rebased = rebase(release, _replace(release, "first", {"torch/a.py": grown}))
    assert [result.outcome for result in rebased.carried.results] == [
        Outcome.NOT_APPLICABLE,
        Outcome.OFFSET,
    ]
    assert rebased.files is not None
    assert rebased.files["test.patch"] == test
    published = publication(project, release, rebased.files, _no_wheel).files
    base = published["patches/torch/v1.0/base.json"]
    assert base is not None
    assert json.loads(base)["absent"] == ["test/x"]
