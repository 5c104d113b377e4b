# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from tools.importer.engine import apply_to_snapshot, read_base
from tools.importer.errors import UserError
from tools.importer.git_repo.commit_snapshot import CommitSnapshot
from tools.importer.git_repo.export import Exported, Offer, State, export_branches, export_files
from tools.importer.git_repo.git_fixture import (
    commit_files,
    git,
    make_series,
    new_repository,
    opened,
)
from tools.importer.git_repo.identity import configured_person
from tools.importer.git_repo.repository import Person
from tools.importer.series import Series, load_series
from tools.importer.snapshot import EXECUTABLE, SYMLINK, Blob

ADA = Person("Ada Lovelace", "ada@example.org")
WHEN = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
LINES = [b"line %d\n" % number for number in range(40)]
TREE = {
    "a.py": b"".join(LINES),
    "crlf.txt": b"one\r\ntwo\r\nthree",
    "data.bin": bytes(range(256)),
    "latin.txt": b"caf\xe9\n",
    "run.sh": b"#!/bin/sh\n",
    "old.py": b"".join(LINES[:20]),
}


def edited(index: int, text: bytes) -> bytes:
    return b"".join([*LINES[:index], text, *LINES[index + 1 :]])


TWICE = edited(5, b"first\n").replace(LINES[30], b"second\n")


@pytest.fixture(name="upstream")
def _upstream(tmp_path: Path) -> Path:
    upstream = new_repository(tmp_path / "upstream")
    commit_files(upstream, TREE)
    return upstream


@pytest.fixture(name="series")
def _series(tmp_path: Path, upstream: Path) -> Series:
    return make_series(
        tmp_path / "series",
        upstream,
        "main",
        {
            "first": ("upstream", {"a.py": edited(5, b"first\n")}),
            "second": ("upstream", {"a.py": TWICE}),
            "ours": ("google", {"crlf.txt": b"one\r\n2\r\nthree"}),
            "needs-second": ("upstream", {"a.py": TWICE.replace(b"second", b"second\nthird")}),
        },
        prose="From time to time it fails.\n---\nSubject: not a header\nFrom here on it works.\n",
    )


def offer(series: Series, **options: object) -> Offer:
    return Offer("torch", series, read_base(series.root), **options)  # type: ignore[arg-type]


def export(upstream: Path, request: Offer) -> dict[str, Exported]:
    with opened(upstream) as repository:
        done = export_branches(
            repository, request, person=ADA, when=WHEN, bodies=upstream.parent / "bodies"
        )
    return {each.patch.removesuffix(".patch"): each for each in done}


def test_each_upstreamable_patch_is_a_branch_of_its_own(upstream: Path, series: Series) -> None:
    done = export(upstream, offer(series))
    assert {name: each.state for name, each in done.items()} == {
        "first": State.NEW,
        "second": State.NEW,
        "needs-second": State.REFUSED,
    }
    assert git(upstream, "rev-list", "--count", "torch/second") == "2"
    assert git(upstream, "rev-parse", "torch/second^") == git(upstream, "rev-parse", "main")
    diff = git(upstream, "diff", "--unified=0", "main", "torch/second").splitlines()
    assert [line for line in diff if line[:1] in "+-" and line[:3] not in ("+++", "---")] == [
        "-line 30",
        "+second",
    ]
    assert git(
        upstream, "log", "-1", "--format=%an <%ae> %cn%n%B", "torch/second"
    ).splitlines() == [
        "Ada Lovelace <ada@example.org> Ada Lovelace",
        "[x] Make second",
        "",
        "From time to time it fails.",
        "---",
        "Subject: not a header",
        "From here on it works.",
        "",
        "Test plan:",
        "some_test.py::test_it",
        "",
        "Signed-off-by: Ada Lovelace <ada@example.org>",
    ]
    body = done["second"].file
    assert body is not None
    assert body.read_text().startswith("From time to time")
    assert "Owner" not in body.read_text()
    assert "needs earlier patches" in done["needs-second"].note
    assert git(upstream, "status", "--porcelain") == ""
    assert git(upstream, "symbolic-ref", "HEAD") == "refs/heads/main"


def test_a_second_export_changes_nothing_and_other_content_is_refused(
    upstream: Path, series: Series
) -> None:
    first = export(upstream, offer(series))["first"]
    again = export(upstream, offer(series))["first"]
    assert (again.state, again.commit) == (State.UNCHANGED, first.commit)
    git(upstream, "checkout", "--quiet", "torch/first")
    head = commit_files(upstream, {"review": b"a change asked for in review\n"})
    git(upstream, "checkout", "--quiet", "main")
    refused = export(upstream, offer(series))["first"]
    assert refused.state is State.REFUSED
    assert "--force" in refused.note
    assert git(upstream, "rev-parse", "torch/first") == head
    forced = export(upstream, offer(series, force=True, only=["first.patch"]))
    assert forced.keys() == {"first"}
    assert forced["first"].state is State.REPLACED
    git(upstream, "checkout", "--quiet", "torch/first")
    commit_files(upstream, {"review": b"again\n"})
    busy = export(upstream, offer(series, force=True))["first"]
    assert busy.state is State.REFUSED
    assert "is checked out in" in busy.note


def test_without_the_base_commit_it_is_merged_onto_main(
    tmp_path: Path, upstream: Path, series: Series
) -> None:
    fork = new_repository(tmp_path / "fork")  # a repository without common history
    moved = [b"a new first line\n", *LINES]
    commit_files(fork, {**TREE, "a.py": b"".join(moved).replace(LINES[30], b"second\n")})
    done = export(fork, offer(series))
    assert done["first"].state is State.NEW
    assert git(fork, "show", "torch/first:a.py").splitlines()[6] == "first"
    assert done["second"].state is State.LANDED
    assert git(fork, "branch", "--list", "torch/second") == ""
    commit_files(fork, {"a.py": b"rewritten\n"})
    gone = export(fork, offer(series))["first"]
    assert gone.state is State.REFUSED
    assert "a.py" in gone.note


def test_onto_names_a_revision(upstream: Path, series: Series) -> None:
    commit_files(upstream, {"a.py": b"".join([b"above\n", *LINES])})
    export(upstream, offer(series, onto="main"))
    assert git(upstream, "rev-parse", "torch/first^") == git(upstream, "rev-parse", "main")
    with pytest.raises(UserError, match="--onto nowhere: no such revision"):
        export(upstream, offer(series, onto="nowhere"))


def test_a_dry_run_makes_no_branch_and_no_file(upstream: Path, series: Series) -> None:
    assert export(upstream, offer(series, dry_run=True))["first"].state is State.NEW
    assert git(upstream, "branch", "--list", "torch/*") == ""
    assert not (upstream.parent / "bodies").exists()


def test_identity_is_the_persons_own(
    upstream: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    with opened(upstream) as repository:
        with pytest.raises(UserError, match=r"Run: git -C .*upstream config user.name"):
            configured_person(repository)
        (tmp_path / "config").write_text("[user]\n name = Ada Lovelace\n")
        with pytest.raises(UserError, match="user.email"):
            configured_person(repository)
        git(upstream, "config", "user.email", "ada@example.org")
        assert configured_person(repository) == ADA


def test_mail_applies_to_the_same_tree(tmp_path: Path, upstream: Path) -> None:
    """`git am` reproduces the tree, even if patches have content that email often corrupts."""
    series = make_series(
        tmp_path / "series",
        upstream,
        "main",
        {
            "lines": ("upstream", {"a.py": TWICE}),
            "crlf": ("google", {"crlf.txt": b"one\r\n2\r\nthree\r\n"}),
            "binary": ("build", {"data.bin": bytes(reversed(range(256)))}),
            "latin": ("build", {"latin.txt": b"caf\xe9\nFrom th\xe9\n-- \n---\n"}),
            "modes": (
                "build",
                {
                    "run.sh": Blob(b"#!/bin/sh\n", EXECUTABLE),
                    "link": Blob(b"a.py", SYMLINK),
                    "data.bin": None,
                },
            ),
            "rename": ("google", {"old.py": None, "new name \xe9.py": b"".join(LINES[:21])}),
        },
        prose="From me Mon Sep 17 00:00:00 2001\ndiff -u is a word\n--- a/x\u00e9\nDate: never\n",
    )
    out = tmp_path / "mail"
    done = export_files(offer(series), out, series.patches)
    assert {each.state for each in done} == {State.NEW}
    assert (out / "series").read_text().split() == [patch.name for patch in series.patches]
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    times = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    assert {each.state for each in export_files(offer(series), out, series.patches)} == {
        State.UNCHANGED
    }
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == times
    assert export_files(offer(series), tmp_path / "mail2", series.patches)
    assert {path.name: path.read_bytes() for path in (tmp_path / "mail2").iterdir()} == first
    assert b"Owner" not in first["lines.patch"]
    assert b"Owner: packaging" in first["crlf.patch"]

    for patch in series.patches:
        git(upstream, "am", "--keep-cr", "--keep-non-patch", str(out / patch.name))
    assert (
        git(upstream, "log", "-1", "--format=%s|%an|%ae")
        == "[x] Make rename|packaging|packaging@invalid"
    )
    with opened(upstream) as repository:
        start = CommitSnapshot(repository, str(read_base(series.root).commit))
        patched = apply_to_snapshot(series, start)
        mailed = CommitSnapshot(repository, git(upstream, "rev-parse", "HEAD"))
        assert {path: mailed.read(path) for path in patched} == patched
        untouched = set(mailed.paths()) - patched.keys()
        assert all(mailed.read(path) == start.read(path) for path in untouched)


@pytest.mark.parametrize(
    ("owner", "sender"),
    [
        ("packaging", b"From: packaging <packaging@invalid>\n"),
        ("Ada <ada@example.org>", b"From: Ada <ada@example.org>\n"),
        ("ada@example.org", b"From: ada <ada@example.org>\n"),
        ('"(x)", y', b"From: x y <x-y@invalid>\n"),
        ("<>", b"From: owner <owner@invalid>\n"),
    ],
)
def test_owners_become_senders(tmp_path: Path, upstream: Path, owner: str, sender: bytes) -> None:
    series = make_series(
        tmp_path / "series", upstream, "main", {"one": ("google", {"a.py": TWICE})}
    )
    file = series.root / "one.patch"
    file.write_bytes(file.read_bytes().replace(b"Owner: packaging", f"Owner: {owner}".encode()))

    request = offer(load_series(series.root))
    export_files(request, tmp_path / "mail", request.patches)
    assert sender in (tmp_path / "mail/one.patch").read_bytes()
    git(upstream, "am", str(tmp_path / "mail/one.patch"))


def test_a_changed_patch_updates_its_own_branch(upstream: Path, series: Series) -> None:
    """A branch that has not changed since its last export is replaced without --force."""
    export(upstream, offer(series))
    patch = series.root / "first.patch"
    patch.write_bytes(patch.read_bytes().replace(b"some_test.py::test_it", b"new_test.py::test_it"))
    changed = load_series(series.root)
    updated = export(upstream, offer(changed))
    assert (updated["first"].state, updated["second"].state) == (State.REPLACED, State.UNCHANGED)
    assert "new_test.py" in git(upstream, "log", "-1", "--format=%B", "torch/first")
    git(upstream, "checkout", "--quiet", "torch/first")
    commit_files(upstream, {"review": b"a change asked for in review\n"})
    git(upstream, "checkout", "--quiet", "main")
    patch.write_bytes(patch.read_bytes().replace(b"new_test.py", b"other_test.py"))
    assert export(upstream, offer(load_series(series.root)))["first"].state is State.REFUSED
