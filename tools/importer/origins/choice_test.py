# SPDX-License-Identifier: Apache-2.0
"""Choose among fake origins, and report why the others were not chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.origins import choice, open_pin, resolve
from tools.importer.origins.cache import CacheProblem, user_cache
from tools.importer.origins.local import TreeOrigin
from tools.importer.origins.origin import NotHereError, OriginSnapshot, Pin, Revision
from tools.importer.origins.origin_fixtures import Lines, make_project
from tools.importer.project import Project


@dataclass
class _Fated:
    """A fake origin that either returns the tree in a directory or raises an error."""

    title: str
    fate: Exception | Path

    def find(self, revision: Revision) -> OriginSnapshot:
        if isinstance(self.fate, Exception):
            raise self.fate
        return TreeOrigin(self.fate, Lines()).find(revision)

    def open(self, pin: Pin) -> OriginSnapshot:
        raise AssertionError


@pytest.fixture(name="tree")
def _tree(tmp_path: Path) -> Path:
    (tmp_path / "upstream").mkdir()
    (tmp_path / "upstream" / "x.py").touch()
    return tmp_path / "upstream"


@pytest.fixture(name="project")
def _project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "workspace")


def _fates(monkeypatch: pytest.MonkeyPatch, fates: Sequence[Exception | Path]) -> None:
    origins = [
        _Fated(name, fate) for name, fate in zip(("one", "two", "three"), fates, strict=False)
    ]
    monkeypatch.setattr(choice, "_candidates", lambda *arguments: origins)


_MISSING = NotHereError("no such release", known=["v1.0.0", "v1.1.0"])
_PARTIAL = NotHereError("not in Debian", known=["v0.9.0"], complete=False)
_DOWN = EnvironmentProblem("no answer")


def test_the_first_that_has_it_and_why_not_those_before(
    project: Project, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fates(monkeypatch, [_MISSING, _DOWN, tree])
    lines = Lines()
    assert resolve(project, lines, tag="v1.0.1").label == "v1.0.1"
    assert lines.said == [
        "not from one: no such release",
        "not from two: no answer",
        f"v1.0.1 from three: {tree}; sources only, so the build's pin stays where it is",
    ]


@pytest.mark.parametrize("fates", [[_MISSING], [_DOWN, _MISSING], [_PARTIAL, _MISSING, _DOWN]])
def test_an_unknown_tag(
    project: Project, monkeypatch: pytest.MonkeyPatch, fates: list[Exception]
) -> None:
    _fates(monkeypatch, fates)
    with pytest.raises(
        UserError, match=r"^no v1\.0\.1 of torch: .*Did you mean v1\.0\.0, v1\.1\.0"
    ):
        resolve(project, Lines(), tag="v1.0.1")


def test_no_near_miss(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    _fates(monkeypatch, [_MISSING])
    with pytest.raises(UserError, match=r"See the releases of the project$"):
        resolve(project, Lines(), tag="nightly")


@pytest.mark.parametrize("fates", [[_DOWN], [_DOWN, _DOWN], [_PARTIAL, _DOWN], []])
def test_out_of_reach(
    project: Project, monkeypatch: pytest.MonkeyPatch, fates: list[Exception]
) -> None:
    _fates(monkeypatch, fates)
    with pytest.raises(EnvironmentProblem, match=r"^v1\.0\.1 of torch is out of reach: .*--origin"):
        resolve(project, Lines(), tag="v1.0.1")


def test_a_full_disk_ends_it_at_once(
    project: Project, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error in (
        CacheProblem("cannot write the cache"),
        EnvironmentProblem("apt: write (28: No space left on device)"),
    ):
        _fates(monkeypatch, [error, tree])
        with pytest.raises(CacheProblem, match="cannot write the cache"):
            resolve(project, Lines(), tag="v1.0.1")


def test_a_persons_mistake_is_not_passed_over(
    project: Project, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fates(monkeypatch, [UserError("other bytes"), tree])
    with pytest.raises(UserError, match="other bytes"):
        resolve(project, Lines(), tag="v1.0.1")


def test_a_tag_and_a_ref(project: Project, tree: Path) -> None:
    with pytest.raises(UserError, match=r"both a tag \(v1\) and a ref \(main\) are given"):
        resolve(project, Lines(), tag="v1", ref="main", origin=str(tree))


def test_a_release_without_its_v(project: Project) -> None:
    project.pin.write_text('{"tag": "v2.13.0"}')
    message = r"no 2\.14\.1 of torch: its tags are as v2\.13\.0\. Did you mean v2\.14\.1\?"
    with pytest.raises(UserError, match=message):
        resolve(project, Lines(), tag="2.14.1")


@pytest.mark.parametrize("text", ["", "[]"])
def test_a_bad_pin_of_the_build(project: Project, text: str) -> None:
    project.pin.write_text(text)
    with pytest.raises(UserError, match=r"pin\.json: .*Restore the file"):
        resolve(project, Lines(), tag="v2.14.1")


def test_the_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project = make_project(
        tmp_path / "workspace",
        debian={"package": "pytorch"},
        git={"url": "https://example.com/x.git"},
        wheel={"project": "torch", "contents": "third_party/torch/contents.json"},
    )
    cache = user_cache()

    def titles(revision: Revision, origin: str | None = None) -> list[str]:
        candidates = choice._candidates(project, Lines(), cache, revision, origin)
        return [candidate.title for candidate in candidates]

    wheels = ["the build's wheel", "another platform's wheel, for its sources"]
    assert titles(Revision(tag="v1.0")) == [wheels[0], "git", "Debian's source package", wheels[1]]
    assert titles(Revision(ref="main")) == titles(Revision(tag="ciflow/x")) == ["git"]
    assert titles(Revision(tag="v1.0"), "wheel") == wheels
    assert titles(Revision(tag="v1.0"), "debian") == ["Debian's source package"]


def test_an_origin_without_settings(project: Project) -> None:
    with pytest.raises(
        UserError, match="/torch/import.json: key 'origins' has no 'debian'. Add its"
    ):
        resolve(project, Lines(), tag="v1.0", origin="debian")


@pytest.mark.parametrize(
    ("pin", "message"),
    [
        ({}, "has no text under 'kind'"),
        ({"kind": "wheel"}, "key 'origins' has no 'wheel'"),
        (
            {"kind": "svn"},
            "no origin of kind 'svn'. There are: archive, debian, git, sdist, tarball, tree, wheel",
        ),
        ({"kind": "tree", "path": "/x", "hash": 1}, "/x: no such directory"),
        ({"kind": "git", "url": "/x", "commit": "main"}, "the pin's commit is 'main', not 40 hex"),
        ({"kind": "debian", "package": "pytorch", "tag": "v1"}, "names no files"),
    ],
)
def test_pins_that_are_none(project: Project, pin: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        open_pin(project, Lines(), pin)
    assert "\n" not in str(caught.value)
