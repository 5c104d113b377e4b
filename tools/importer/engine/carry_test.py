# SPDX-License-Identifier: Apache-2.0
"""Rebase patch series that produce every outcome, and check invariants of all results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.importer.engine.base import record_base
from tools.importer.engine.carry import carry
from tools.importer.engine.outcome import Outcome, Resolved
from tools.importer.engine.scenario import (
    Files,
    Scenario,
    Texts,
    make_scenario,
    next_scenario,
    over,
    patched,
    scratch,
)
from tools.importer.series import load_series
from tools.importer.snapshot import EXECUTABLE, SYMLINK, Blob, DictSnapshot, OverlaySnapshot
from tools.par.testing.budget import examples

_LINES = [f"line {number}\n" for number in range(40)]
_TEXT = "".join(_LINES)
_BLOCK = "    x = 1\n    return x\n\n"


def _with(text: str, **changes: str) -> str:
    """Return `text` with some lines replaced: the keyword argument `l5` is the new line 5."""
    for key, new in changes.items():
        old = f"line {key[1:]}\n"
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


_PATCHED = _with(_TEXT, l20="line twenty\n")
_UPSTREAM = _with(_TEXT, l5="upstream's line 5\n")
_BOTH = _with(_PATCHED, l5="upstream's line 5\n")
_LINK = Blob(b"z", SYMLINK)
_METHODS = "".join(f"def f{n}():\n    x = 1\n    return x\n\n" for n in range(6))


def _guarded(number: int) -> str:
    head = f"def f{number}():\n    x = 1\n"
    return _METHODS.replace(head, f"{head}    guard(x)\n")


def _run(text: str) -> Blob:
    return Blob(text.encode(), EXECUTABLE)


# A test case: its name, the old tree, the patches, the files that upstream changed, and the
# expected outcomes.
_Case = tuple[str, Texts, Mapping[str, Texts], Texts, str]
_CASES: list[_Case] = [
    ("the same", {"a": _TEXT}, {"p": {"a": _PATCHED}}, {}, "clean"),
    ("elsewhere", {"a": _TEXT}, {"p": {"a": _PATCHED}}, {"a": _UPSTREAM}, "clean"),
    ("moved", {"a": _TEXT}, {"p": {"a": _PATCHED}}, {"a": "new\n" + _TEXT}, "offset"),
    (
        "beside it",
        {"a": _TEXT},
        {"p": {"a": _PATCHED}},
        {"a": _with(_TEXT, l18="other 18\n")},
        "3-way",
    ),
    (
        "the same line",
        {"a": _TEXT},
        {"p": {"a": _PATCHED}},
        {"a": _with(_TEXT, l20="totally different\n")},
        "conflict",
    ),
    ("landed", {"a": _TEXT}, {"p": {"a": _PATCHED}}, {"a": _BOTH}, "landed"),
    (
        "landed inside a bigger change",
        {"a": _TEXT},
        {"p": {"a": _PATCHED}},
        {"a": _with(_PATCHED, l19="other 19\n")},
        "landed",
    ),
    (
        "landed, with neighbors of both sides rewritten",
        {"a": _TEXT},
        {"p": {"a": _PATCHED}},
        {"a": _with(_PATCHED, l19="other 19\n", l21="other 21\n")},
        "suspected",
    ),
    (
        "landed with a tweak",
        {"a": _TEXT},
        {"p": {"a": _PATCHED}},
        {"a": _with(_TEXT, l20="line twenty-ish\n")},
        "suspected",
    ),
    (
        "its file landed elsewhere",
        {"a": _METHODS},
        {"p": {"a": _guarded(3)}},
        {"a": _guarded(1)},
        "suspected",
    ),
    (
        "landed where all context repeats",
        {"a": _METHODS},
        {"p": {"a": _guarded(3)}},
        {"a": "import x\n" + _guarded(3)},
        "landed",
    ),
    (
        "one more of what repeats",
        {"a": _BLOCK * 6},
        {"p": {"a": _BLOCK * 2 + "    guard(x)\n" + _BLOCK * 4}},
        {"a": _BLOCK * 7},
        "ambiguous",
    ),
    (
        "one more of what repeats, between lines that do not",
        {"a": "first\n" + _BLOCK * 4 + "last\n"},
        {"p": {"a": "first\n" + _BLOCK + "    x = 1\n    guard(x)\n" + _BLOCK[10:] + _BLOCK * 2 + "last\n"}},
        {"a": "first\n" + _BLOCK * 5 + "last\n"},
        "ambiguous",
    ),
    (
        "one less of what repeats",
        {"a": "first\n" + _BLOCK * 5 + "last\n"},
        {"p": {"a": "first\n" + _BLOCK * 2 + "    x = 1\n    guard(x)\n" + _BLOCK[10:] + _BLOCK * 2 + "last\n"}},
        {"a": "first\n" + _BLOCK * 4 + "last\n"},
        "ambiguous",
    ),
    (
        "landed, and one more of what repeats",
        {"a": _BLOCK * 6},
        {"p": {"a": _BLOCK * 2 + "    guard(x)\n" + _BLOCK * 4}},
        {"a": _BLOCK * 3 + "    guard(x)\n" + _BLOCK * 4},
        "suspected",
    ),
    (
        "one of two equal blocks went, and the end of one of them",
        {"a": _BLOCK * 2},
        {"p": {"a": _BLOCK + "    x = 1\n"}},
        {"a": _BLOCK},
        "ambiguous",
    ),
    (
        "one of two equal blocks went, and in two patches the end of one of them",
        {"a": _BLOCK * 2},
        {"p": {"a": _BLOCK + "    x = 1\n    return x\n"}, "q": {"a": _BLOCK + "    x = 1\n"}},
        {"a": _BLOCK},
        "ambiguous landed",  # once the first patch applies, the blank line distinguishes the blocks
    ),
    (
        "a group on one line landed",
        {"a": _TEXT},
        {"p": {"a": _PATCHED}, "q": {"a": _with(_TEXT, l20="the end\n")}},
        {"a": _with(_UPSTREAM, l20="the end\n")},
        "landed landed",
    ),
    (
        "the first of a group landed",
        {"a": _TEXT},
        {"p": {"a": _PATCHED}, "q": {"a": _with(_TEXT, l20="the end\n")}},
        {"a": _BOTH},
        "landed clean",
    ),
    (
        "a patch takes out what upstream rewrote",
        {"a": _TEXT},
        {"p": {"a": _with(_TEXT, l20="")}},
        {"a": _with(_TEXT, l19="other 19\n", l20="line 20, still there\n")},
        "conflict",
    ),
    (
        "upstream took out more",
        {"a": _TEXT},
        {"p": {"a": _with(_TEXT, l20="")}},
        {"a": _with(_TEXT, l19="", l20="", l21="")},
        "landed",
    ),
    (
        "one file of two landed",
        {"a": _TEXT, "b": _TEXT},
        {"p": {"a": _PATCHED, "b": _PATCHED}},
        {"a": _BOTH},
        "3-way",
    ),
    ("carriage returns", {"a": _TEXT}, {"p": {"a": _PATCHED}}, {"a": _TEXT.replace("\n", "\r\n")}, "conflict"),
    ("no newline", {"a": _TEXT[:-1]}, {"p": {"a": _PATCHED[:-1]}}, {"a": _UPSTREAM[:-1]}, "clean"),
    ("a newline came", {"a": _TEXT[:-1]}, {"p": {"a": _TEXT + "x\n"}}, {"a": _TEXT}, "suspected"),
    ("moved file", {"d/a": _TEXT}, {"p": {"d/a": _PATCHED}}, {"d/a": None, "e/a": _UPSTREAM}, "offset"),
    (
        "moved file, landed",
        {"d/a": _TEXT},
        {"p": {"d/a": _PATCHED}, "q": {"d/a": _with(_PATCHED, l30="q\n")}},
        {"d/a": None, "e/a": _BOTH},
        "landed offset",
    ),
    ("moved to one of two", {"d/a": _TEXT}, {"p": {"d/a": _PATCHED}}, {"d/a": None, "e/a": _TEXT, "f/a": _TEXT}, "file gone"),
    ("deleted", {"a": _TEXT}, {"p": {"a": _PATCHED}}, {"a": None}, "file gone"),
    ("renaming patch", {"a": _TEXT}, {"p": {"a": None, "moved": _PATCHED}}, {"a": _UPSTREAM}, "clean"),
    ("renaming patch, landed", {"a": _TEXT}, {"p": {"a": None, "moved": _PATCHED}}, {"a": None, "moved": _BOTH}, "landed"),
    ("renaming patch, its name landed", {"a": _TEXT}, {"p": {"a": None, "moved": _PATCHED}}, {"a": None, "moved": _UPSTREAM}, "offset"),
    (
        "renamed, then changed",
        {"a": _TEXT},
        {"p": {"a": None, "moved": _PATCHED}, "q": {"moved": _with(_PATCHED, l30="q\n")}},
        {"a": _UPSTREAM},
        "clean clean",
    ),
    ("new file", {}, {"p": {"n": "new\n"}}, {"other": "x\n"}, "clean"),
    ("new file landed", {}, {"p": {"n": "new\n"}}, {"n": "new\n"}, "landed"),
    ("new file, another one upstream", {}, {"p": {"n": "new\n"}}, {"n": "other\n"}, "conflict"),
    ("new file and its change landed", {}, {"p": {"n": "1\n"}, "q": {"n": "1\n2\n"}}, {"n": "1\n2\n"}, "landed landed"),
    ("empty file", {}, {"p": {"n": ""}}, {"other": "x\n"}, "clean"),
    ("deleting patch", {"a": _TEXT}, {"p": {"a": None}}, {}, "clean"),
    ("deleting patch landed", {"a": _TEXT}, {"p": {"a": None}}, {"a": None}, "landed"),
    ("deleting patch, changed", {"a": _TEXT}, {"p": {"a": None}}, {"a": _UPSTREAM}, "conflict"),
    ("deleting patch, moved", {"d/a": _TEXT}, {"p": {"d/a": None}}, {"d/a": None, "e/a": _TEXT}, "suspected"),
    ("deleted and made anew", {"a": _TEXT}, {"p": {"a": None}, "q": {"a": "x\n"}}, {}, "clean clean"),
    ("mode", {"a": _TEXT}, {"p": {"a": _run(_TEXT)}}, {"a": _UPSTREAM}, "clean"),
    ("mode landed", {"a": _TEXT}, {"p": {"a": _run(_TEXT)}}, {"a": _run(_UPSTREAM)}, "landed"),
    ("lines landed, mode not", {"a": _TEXT}, {"p": {"a": _run(_PATCHED)}}, {"a": _BOTH}, "3-way"),
    ("upstream's mode", {"a": _TEXT}, {"p": {"a": _PATCHED}}, {"a": _run(_UPSTREAM)}, "clean"),
    ("link", {"a": Blob(b"y", SYMLINK)}, {"p": {"a": _LINK}}, {}, "clean"),
    ("link landed", {"a": Blob(b"y", SYMLINK)}, {"p": {"a": _LINK}}, {"a": _LINK}, "landed"),
    ("link, another one upstream", {"a": Blob(b"y", SYMLINK)}, {"p": {"a": _LINK}}, {"a": Blob(b"x", SYMLINK)}, "conflict"),
    ("link moved", {"a": _LINK}, {"p": {"a": None, "moved": _LINK}}, {}, "clean"),
    ("link in a file's place", {"a": _TEXT}, {"p": {"a": _LINK}}, {}, "clean"),
    ("link in a changed file's place", {"a": _TEXT}, {"p": {"a": _LINK}}, {"a": _UPSTREAM}, "conflict"),
    ("upstream made it a link", {"a": _TEXT}, {"p": {"a": _PATCHED}}, {"a": _LINK}, "conflict"),
    ("binary", {"a": b"\0x"}, {"p": {"a": b"\0y"}}, {}, "clean"),
    ("binary changed", {"a": b"\0x"}, {"p": {"a": b"\0y"}}, {"a": b"\0z"}, "conflict"),
    ("binary landed", {"a": b"\0x"}, {"p": {"a": b"\0y"}}, {"a": b"\0y"}, "landed"),
]  # fmt: skip


def _scenario(root: Path, old: Texts, steps: Mapping[str, Texts]) -> Scenario:
    bystander = {"bystander": "here\n"}  # a tree must not be empty
    return make_scenario(root, {**old, **bystander}, steps, moves={"a": "moved"})


@pytest.mark.parametrize("case", _CASES, ids=[case[0] for case in _CASES])
def test_outcomes(tmp_path: Path, case: _Case) -> None:
    _, old, steps, upstream, outcomes = case
    scenario = _scenario(tmp_path / "a", old, steps)
    assert " ".join(item.value for item in scenario.outcomes(upstream).values()) == outcomes


@pytest.mark.parametrize("case", _CASES, ids=[case[0] for case in _CASES])
def test_what_is_carried_applies_strictly_and_stays(tmp_path: Path, case: _Case) -> None:
    """The rebased patches apply to the new tree without fuzz. Rebasing again changes no byte."""
    _, old, steps, upstream, _ = case
    scenario = _scenario(tmp_path / "a", old, steps)
    new = over(scenario.old, upstream)
    _check_laws(tmp_path, scenario, new)


def _check_laws(root: Path, scenario: Scenario, new: Files) -> None:
    carried = scenario.to(new)
    if carried.stopped:
        assert any(result.outcome.stops for result in carried.results)
        return
    result = {path: blob for path, blob in {**new, **carried.files}.items() if blob is not None}
    if all(item.outcome is Outcome.LANDED for item in carried.results):
        assert result == new
        return
    after = next_scenario(root / "next", carried, new)
    assert patched(after) == result
    again = after.to(new)
    assert {item.outcome for item in again.results} <= {Outcome.CLEAN}
    assert again.series_files() == carried.series_files()


_LINE = st.one_of(
    st.sampled_from([")\n", "\n", "    else:\n"]),
    st.integers(0, 30).map(lambda n: f"line no. {n}\n"),
)


_RARE_LINE = st.integers(0, 10**6).map(lambda n: f"line no. {n}\n")


@st.composite
def _edits(draw: st.DrawFn, text: str, line: st.SearchStrategy[str] = _LINE) -> str:
    lines = text.splitlines(keepends=True)
    for _ in range(draw(st.integers(1, 2))):
        index = draw(st.integers(0, len(lines)))
        lines[index : index + draw(st.integers(0, 2))] = draw(st.lists(line, max_size=2))
    return "".join(lines) or "last\n"


@st.composite
def _stories(
    draw: st.DrawFn, line: st.SearchStrategy[str] = _LINE
) -> tuple[dict[str, str], list[tuple[str, dict[str, str]]]]:
    """Generate two files and a series of patches that change them."""
    old = {
        name: "".join(draw(st.lists(line, min_size=3, max_size=20))) for name in ("a.py", "b.py")
    }
    now, steps = dict(old), list[tuple[str, dict[str, str]]]()
    for number in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(now)))
        text = draw(_edits(now[name], line))
        if text != now[name]:
            now[name] = text
            steps.append((f"p{number}", {name: text}))
    return old, steps or [("p", {"a.py": old["a.py"] + "more\n"})]


_SOME = settings(max_examples=examples(80), deadline=None)


@_SOME
@given(story=_stories(), context=st.integers(0, 4))
def test_to_the_same_tree_is_the_identity(
    story: tuple[dict[str, str], list[tuple[str, dict[str, str]]]], context: int
) -> None:
    with scratch() as root:
        scenario = make_scenario(Path(root), story[0], story[1], context=context)
        carried = scenario.to(scenario.old)
        assert {item.outcome for item in carried.results} == {Outcome.CLEAN}
        for name, data in carried.series_files().items():
            assert (scenario.series.root / name).read_bytes() == data


@_SOME
@given(story=_stories(), data=st.data())
def test_the_laws_on_any_upstream(
    story: tuple[dict[str, str], list[tuple[str, dict[str, str]]]], data: st.DataObject
) -> None:
    old, steps = story
    upstream = dict(old)
    for _, texts in steps[: data.draw(st.integers(0, len(steps)))]:
        upstream |= texts
    for name in data.draw(st.lists(st.sampled_from(sorted(upstream)), max_size=2)):
        upstream[name] = data.draw(_edits(upstream[name]))
    with scratch() as root:
        scenario = make_scenario(Path(root) / "a", old, steps)
        _check_laws(Path(root), scenario, over({}, upstream))


@_SOME
@given(story=_stories(_RARE_LINE))
def test_what_landed_is_never_put_in_twice(
    story: tuple[dict[str, str], list[tuple[str, dict[str, str]]]],
) -> None:
    """If upstream's only changes are our patches, an import leaves its tree unchanged or stops.

    Not every patch counts as landed, because two patches that undo each other may both remain in
    the series. Lines are rarely repeated here, because a line such as `)` does not show which patch
    added it.
    """
    old, steps = story
    upstream = dict(old)
    for _, texts in steps:
        upstream |= texts
    with scratch() as root:
        carried = make_scenario(Path(root), old, steps).to(over({}, upstream))
        if not carried.stopped:
            assert {**over({}, upstream), **carried.files} == over({}, upstream)


@_SOME
@given(story=_stories(), data=st.data())
def test_disjoint_patches_commute(
    story: tuple[dict[str, str], list[tuple[str, dict[str, str]]]], data: st.DataObject
) -> None:
    old, _ = story
    first = ("p", {"a.py": data.draw(_edits(old["a.py"]))})
    second = ("q", {"b.py": data.draw(_edits(old["b.py"]))})
    if first[1]["a.py"] == old["a.py"] or second[1]["b.py"] == old["b.py"]:
        return
    upstream = over({}, {name: data.draw(_edits(text)) for name, text in old.items()})
    with scratch() as root:
        ways = [
            make_scenario(Path(root) / name, old, steps).to(upstream, keep_going=True)
            for name, steps in (("pq", [first, second]), ("qp", [second, first]))
        ]
        one, other = ({item.patch.name: item for item in way.results} for way in ways)
        for name, item in one.items():
            assert (item.outcome, item.data) == (other[name].outcome, other[name].data)
        assert ways[0].files == ways[1].files


def test_a_name_outvotes_the_body_that_many_share(tmp_path: Path) -> None:
    """Upstream added and removed functions whose bodies are identical to the patched one's."""

    def text(*names: str, patched: str = "") -> str:
        body = "    x = one()\n    y = two()\n    return x\n"
        changed = body.replace("return x", "return y")
        return "".join(f"def {n}():\n{changed if n == patched else body}\n" for n in names)

    old = {"a": text("f0", "f1", "f2", "f3")}
    steps = {"p": {"a": text("f0", "f1", "f2", "f3", patched="f2")}}
    carried = make_scenario(tmp_path, old, steps).to(over({}, {"a": text("f0", "f1", "f", "f2")}))
    assert carried.files == over({}, {"a": text("f0", "f1", "f", "f2", patched="f2")})


class _Wheel(DictSnapshot):
    """A snapshot of a wheel, which never contains C++ sources."""

    def carries(self, path: str) -> bool:
        return not path.startswith("csrc/")


def _with_sources(
    root: Path, wheel: Texts, *, from_wheel: bool = False
) -> tuple[str, bytes | None]:
    """Rebase a patch to Python and C++ files onto a wheel; return its outcome and the new patch."""
    files: Texts = {"a.py": _TEXT, "b.py": _TEXT, "csrc/c.h": _TEXT}
    steps = {"p": dict.fromkeys(files, _PATCHED)}
    scenario = make_scenario(root, files, steps)
    new = _Wheel("wheel", over({}, {"a.py": _TEXT, "b.py": _TEXT, **wheel}))
    (result,) = carry(scenario.series, scenario.base, new).results
    return result.outcome.value, result.data


def test_what_an_origin_lacks_is_kept_as_it_is(tmp_path: Path) -> None:
    outcome, data = _with_sources(tmp_path, {"a.py": "new\n" + _TEXT})
    original = (tmp_path / "p.patch").read_bytes()
    assert outcome == "offset"
    assert data is not None
    assert (
        data[data.index(b"diff --git a/csrc") :] == original[original.index(b"diff --git a/csrc") :]
    )
    assert b"@@ -19,7 +19,7 @@" in data


def test_a_patch_that_landed_as_far_as_one_can_see_is_kept(tmp_path: Path) -> None:
    outcome, data = _with_sources(tmp_path, {"a.py": _BOTH, "b.py": _PATCHED})
    assert outcome == "not applicable"
    assert data is not None
    (tmp_path / "p.patch").write_bytes(data)
    assert [diff.path for diff in load_series(tmp_path).patches[0].files] == ["csrc/c.h"]


def test_what_remains_of_a_patch_stays_though_one_file_is_unseen(tmp_path: Path) -> None:
    outcome, data = _with_sources(tmp_path, {"a.py": _BOTH})
    assert outcome == "3-way"
    assert data is not None
    (tmp_path / "p.patch").write_bytes(data)
    paths = [diff.path for diff in load_series(tmp_path).patches[0].files]
    assert paths == ["b.py", "csrc/c.h"]


def test_from_an_origin_that_lacked_a_file(tmp_path: Path) -> None:
    """If a file has no recorded base, its patch must apply exactly, or the import stops."""
    files: Texts = {"a.py": _TEXT, "csrc/c.h": _TEXT}
    scenario = make_scenario(tmp_path, files, {"p": dict.fromkeys(files, _PATCHED)})
    (tmp_path / "base.json").unlink()
    base = record_base(scenario.series, _Wheel("wheel", over({}, {"a.py": _TEXT})))
    for text, outcome in ((_UPSTREAM, "clean"), ("new\n" + _TEXT, "ambiguous")):
        new = DictSnapshot("git", over({}, {"a.py": _TEXT, "csrc/c.h": text}))
        (result,) = carry(scenario.series, base, new).results
        assert result.outcome.value == outcome


def test_a_patch_that_git_wrote_of_a_file_that_becomes_a_link(tmp_path: Path) -> None:
    """git deletes the file and then creates the link, so the path occurs twice in the patch."""
    scenario = make_scenario(tmp_path, {"a": _TEXT, "z": "z\n"}, {"p": {"a": _LINK}})
    assert [diff.new_path for diff in scenario.series.patches[0].files] == [None, "a"]
    assert scenario.to(over(scenario.old, {"z": "other\n"})).files == {"a": _LINK}


def test_patches_that_are_in_already_are_only_replayed(tmp_path: Path) -> None:
    """The new tree already contains the patches before the first one to rebase.

    This is the case after the user has edited a patch in the middle of the series.
    """
    steps: dict[str, Texts] = {"p": {"a": _PATCHED}, "q": {"a": None}, "r": {"a": "anew\n"}}
    scenario = make_scenario(tmp_path, {"a": _TEXT, "z": "z\n"}, steps)
    new = OverlaySnapshot(DictSnapshot("old", scenario.old), over({}, {"a": _PATCHED}))
    carried = carry(scenario.series, scenario.base, new, first=1)
    assert [result.outcome for result in carried.results] == [Outcome.CLEAN] * 2


@pytest.mark.parametrize("others", [0, 200])
def test_a_moved_file_is_found_among_many(tmp_path: Path, others: int) -> None:
    scenario = make_scenario(tmp_path, {"d/a.py": _TEXT, "z": "z\n"}, {"p": {"d/a.py": _PATCHED}})
    new: dict[str, str] = {f"e/{n}.py": "x\n" * n for n in range(others)}
    new |= {"e/b.py": _UPSTREAM, "z": "z\n"}
    carried = scenario.to(over({}, new))
    assert {path for path, blob in carried.files.items() if blob} == {"e/b.py"}


def test_a_suspect_says_how_upstream_differs(tmp_path: Path) -> None:
    scenario = make_scenario(tmp_path, {"a": _TEXT}, {"p": {"a": _PATCHED}})
    carried = scenario.to(over({}, {"a": _with(_TEXT, l20="line twenty-ish\n")}))
    assert carried.stopped is not None
    (file,) = carried.stopped.files
    assert "-line twenty\n+line twenty-ish\n" in file.inner
    with pytest.raises(ValueError, match="stopped"):
        carried.series_files()


def test_memory_of_the_old_tree_changes_nothing(tmp_path: Path) -> None:
    """The old tree, if available, supplies text to show in conflicts but never changes a result."""
    for name, old, steps, upstream, _ in _CASES:
        scenario = _scenario(tmp_path / name, old, steps)
        new = DictSnapshot("new", over(scenario.old, upstream))
        outcomes = [
            [
                None if result.outcome.stops else (result.outcome, result.data)
                for result in carry(
                    scenario.series, scenario.base, new, keep_going=True, old=tree
                ).results
            ]
            for tree in (None, DictSnapshot("old", scenario.old))
        ]
        assert outcomes[0] == outcomes[1], name


def test_a_file_that_a_person_adds_has_its_place_in_the_patch(tmp_path: Path) -> None:
    """If the user's resolution adds a file, the patch equals one that always had this file."""
    old = dict.fromkeys(("a", "b", "c"), _TEXT)
    both = make_scenario(tmp_path / "whole", old, {"p": dict.fromkeys(old, _PATCHED)})
    part = make_scenario(tmp_path / "part", old, {"p": {"b": _PATCHED, "c": _PATCHED}})
    decision = Resolved({"a": Blob(_PATCHED.encode())})
    carried = carry(
        part.series, part.base, DictSnapshot("new", part.old), decisions={"p.patch": decision}
    )
    assert carried.results[0].data == (both.series.root / "p.patch").read_bytes()
