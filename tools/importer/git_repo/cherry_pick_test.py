# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tools.importer.engine import Outcome, apply_to_snapshot, carry, read_base
from tools.importer.errors import UserError
from tools.importer.git_repo.cherry_pick import Header, PickConflictError, Picked, cherry_pick
from tools.importer.git_repo.commit_snapshot import CommitSnapshot
from tools.importer.git_repo.git_fixture import (
    Lines,
    commit_files,
    git,
    make_series,
    new_repository,
    opened,
)
from tools.importer.git_repo.upstream_history import open_history
from tools.importer.series import Series, load_series
from tools.importer.snapshot import SYMLINK, Blob, DictSnapshot

LINES = [b"line %d\n" % number for number in range(40)]
TREE = {
    "torch/a.py": b"".join(LINES),
    "torch/b.py": b"".join(LINES[:20]),
    "torch/old.py": b"".join(LINES[:15]),
    "test/test_a.py": b"assert a\n",
}
HEADER = Header("compiler")


def edited(index: int, text: bytes, lines: list[bytes] = LINES) -> bytes:
    return b"".join([*lines[:index], text, *lines[index + 1 :]])


class Upstream:
    """An upstream repository with a release v1, a series of one patch for it, and later commits."""

    def __init__(self, directory: Path) -> None:
        self.path = new_repository(directory / "upstream")
        self.v1 = commit_files(self.path, TREE, "v1")
        files = {"torch/a.py": edited(35, b"ours\n")}
        self.series = make_series(
            directory / "series", self.path, self.v1, {"ours": ("google", files)}
        )
        self.cache = directory / "cache"

    def commit(self, files: Mapping[str, bytes | Blob | None], message: str) -> str:
        return commit_files(self.path, files, message)

    def pick(
        self,
        reference: str,
        *,
        header: Header = HEADER,
        resolved: Path | None = None,
        without_tests: bool = False,
        url: str | None = None,
    ) -> Picked:
        history = open_history(url or str(self.path), self.cache, Lines())
        with opened(self.path) as repository:
            snapshot = CommitSnapshot(repository, self.v1)
            try:
                return cherry_pick(
                    history.repository,
                    history.find(reference),
                    load_series(self.series.root),
                    _Wheel(snapshot) if without_tests else snapshot,
                    header,
                    resolved=resolved,
                )
            finally:
                history.repository.close()

    def take(self, picked: Picked) -> Series:
        for name, data in picked.files.items():
            (self.series.root / name).write_bytes(data)
        return load_series(self.series.root)

    def patched(self) -> dict[str, Blob | None]:
        with opened(self.path) as repository:
            return apply_to_snapshot(
                load_series(self.series.root), CommitSnapshot(repository, self.v1)
            )


class _Wheel(DictSnapshot):
    """A tree without upstream's tests, like the tree of a wheel."""

    def __init__(self, snapshot: CommitSnapshot) -> None:
        files = {path: snapshot.read(path) for path in snapshot.paths() if "test" not in path}
        super().__init__("v1", {path: blob for path, blob in files.items() if blob})

    def carries(self, path: str) -> bool:
        return not path.startswith("test/")


@pytest.fixture(name="upstream")
def _upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path)


LANDED = "[x] Fix a thing (#77)\n\nWhy.\n\nPull Request resolved: https://example.org/o/r/pull/77\n"


def test_a_commit_becomes_a_patch_of_the_series(upstream: Upstream) -> None:
    upstream.commit({"torch/a.py": b"above\n" + b"".join(LINES)}, "unrelated")
    commit = upstream.commit({"torch/a.py": b"above\n" + edited(3, b"fixed\n")}, LANDED)
    upstream.commit({"torch/b.py": b"later\n"}, "later")
    picked = upstream.pick(commit)
    assert picked.name == "x-fix-a-thing.patch"
    series = upstream.take(picked)
    assert [patch.name for patch in series.patches] == ["ours.patch", "x-fix-a-thing.patch"]
    assert series.patches[1].header == {
        "Subject": "[x] Fix a thing",
        "Owner": "compiler",
        "Reason": "upstream",
        "Upstream": f"commit {commit}",
        "Extension-point-considered": "None: an upstream change, taken as it is",
        "Test": f"Upstream's own, commit {commit}",
        "Cherry-pick": commit,
    }
    want = edited(3, b"fixed\n").replace(LINES[35], b"ours\n")
    assert upstream.patched() == {"torch/a.py": Blob(want)}
    assert set(read_base(upstream.series.root).files) == {"torch/a.py"}
    with pytest.raises(UserError, match="x-fix-a-thing.patch: holds .* already"):
        upstream.pick(commit)


@pytest.mark.parametrize(
    "reference",
    ["77", "#77", "https://example.org/o/r/pull/77", "https://example.org/o/r/pull/77/files#x"],
)
def test_a_landed_pull_request_is_its_commit(upstream: Upstream, reference: str) -> None:
    first = upstream.commit({"torch/b.py": b"first try\n"}, LANDED)
    upstream.commit({"torch/b.py": TREE["torch/b.py"]}, f'Revert "x (#77)"\n\n{LANDED}')
    second = upstream.commit({"torch/b.py": edited(2, b"x\n", LINES[:20])}, LANDED)
    upstream.commit({}, "mentions\n\nPull Request resolved: https://example.org/o/r/pull/777\n")
    series = upstream.take(upstream.pick(reference))
    assert series.patches[1].header["Cherry-pick"] == second != first


def test_an_open_pull_request_is_all_of_its_commits(upstream: Upstream) -> None:
    upstream.commit({"torch/a.py": edited(1, b"main went on\n")}, "later")
    git(upstream.path, "checkout", "--quiet", "-b", "request", upstream.v1)
    upstream.commit({"torch/b.py": edited(2, b"x\n", LINES[:20])}, "The request")
    lines = [*LINES[:2], b"x\n", *LINES[3:20]]
    head = upstream.commit({"torch/b.py": edited(3, b"y\n", lines)}, "Answer the review")
    git(upstream.path, "checkout", "--quiet", "main")
    git(upstream.path, "update-ref", "refs/pull/5/head", head)
    git(upstream.path, "branch", "-D", "request")
    picked = upstream.pick("5", header=Header("us", expires="2030-01-01", test="t.py"))
    assert picked.paths == ("torch/b.py",)
    header = upstream.take(picked).patches[1].header
    assert header["Subject"] == "The request"
    assert (header["Cherry-pick"], header["Expires"], header["Test"]) == (
        head,
        "2030-01-01",
        "t.py",
    )
    assert upstream.patched()["torch/b.py"] == Blob(edited(3, b"y\n", lines))


def test_a_unique_prefix_will_do_and_another_will_not(upstream: Upstream) -> None:
    commits = [
        upstream.commit({"torch/b.py": b"%d\n" % number}, str(number)) for number in range(20)
    ]
    firsts = [commit[:4] for commit in commits]
    unique = next(
        commit for commit in commits if firsts.count(commit[:4]) == 1 and not commit[:12].isdigit()
    )
    history = open_history(str(upstream.path), upstream.cache, Lines())
    assert history.find(unique[:12]).commit == unique
    with pytest.raises(UserError, match="no commit begins with 0000000"):
        history.find("0000000")
    with pytest.raises(UserError, match="no commit f{40}"):
        history.find("f" * 40)
    with pytest.raises(UserError, match="no pull request 123"):
        history.find("https://example.org/o/r/pull/123")
    with pytest.raises(UserError, match="'what is it' names no change"):
        history.find("what is it")


def test_a_prefix_of_two_commits_names_them(upstream: Upstream) -> None:
    tree = git(upstream.path, "rev-parse", "HEAD^{tree}")
    commits: dict[str, str] = {}
    for number in range(3000):  # with 65,536 prefixes, about 300 commits are enough for a collision
        commit = git(upstream.path, "commit-tree", tree, "-m", str(number))
        if commit[:4] in commits:
            break
        commits[commit[:4]] = commit
    history = open_history(str(upstream.path), upstream.cache, Lines())
    with pytest.raises(UserError, match=f"{commit[:4]} begins 2 commits: .*Give more of it"):
        history._expand(commit[:4])


def test_a_conflict_is_refused_by_name_and_resolved_by_hand(
    upstream: Upstream, tmp_path: Path
) -> None:
    commit = upstream.commit(
        {"torch/a.py": edited(35, b"theirs\n"), "torch/b.py": b"clean\n"}, "Clash"
    )
    with pytest.raises(PickConflictError, match=r"torch/a.py.*--to-edit DIR") as caught:
        upstream.pick(commit)
    assert "torch/b.py" not in str(caught.value)
    assert caught.value.conflicts == ("torch/a.py",)
    merged = caught.value.files["torch/a.py"]
    assert merged is not None
    assert b"<<<<<<< " in merged.data
    for path, blob in caught.value.files.items():
        assert blob is not None
        (tmp_path / "edit" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "edit" / path).write_bytes(blob.data)
    with pytest.raises(UserError, match="torch/a.py: conflict markers remain"):
        upstream.pick(commit, resolved=tmp_path / "edit")
    (tmp_path / "edit/torch/a.py").write_bytes(edited(35, b"both\n"))
    upstream.take(upstream.pick(commit, resolved=tmp_path / "edit"))
    assert upstream.patched() == {
        "torch/a.py": Blob(edited(35, b"both\n")),
        "torch/b.py": Blob(b"clean\n"),
    }


def test_moves_deletions_modes_and_links_are_taken(upstream: Upstream) -> None:
    commit = upstream.commit(
        {
            "torch/old.py": None,
            "torch/new.py": edited(1, b"moved\n", LINES[:15]),
            "torch/b.py": None,
            "torch/link": Blob(b"a.py", SYMLINK),
            "torch/data": bytes(range(256)),
        },
        "All kinds",
    )
    upstream.take(upstream.pick(commit))
    assert upstream.patched() == {
        "torch/a.py": Blob(edited(35, b"ours\n")),
        "torch/old.py": None,
        "torch/new.py": Blob(edited(1, b"moved\n", LINES[:15])),
        "torch/b.py": None,
        "torch/link": Blob(b"a.py", SYMLINK),
        "torch/data": Blob(bytes(range(256))),
    }


def test_files_that_the_origin_does_not_hold_are_left_out(upstream: Upstream) -> None:
    both = {"torch/b.py": b"fixed\n", "test/test_a.py": b"assert b\n"}
    picked = upstream.pick(upstream.commit(both, "Fix with test"), without_tests=True)
    assert picked.left_out == ("test/test_a.py",)
    assert picked.paths == ("torch/b.py",)
    assert b"Test: Upstream's own, test/test_a.py\n" in picked.files[picked.name]
    only = upstream.commit({"test/test_a.py": b"assert c\n"}, "Only a test")
    with pytest.raises(UserError, match="touches only files that v1 does not hold: test/test_a.py"):
        upstream.pick(only, without_tests=True)


def test_what_the_tree_has_already_is_no_patch(upstream: Upstream) -> None:
    commit = upstream.commit({"torch/a.py": edited(35, b"ours\n")}, "The same")
    assert upstream.pick(commit).files == {}


def test_it_drops_out_by_itself_once_upstream_has_it(upstream: Upstream) -> None:
    fix = {"torch/b.py": edited(2, b"fixed\n", LINES[:20])}
    commit = upstream.commit(fix, "Fix")
    series = upstream.take(upstream.pick(commit))
    v2 = upstream.commit({"torch/b.py": b"above\n" + fix["torch/b.py"]}, "v2")
    reverted = upstream.commit({"torch/b.py": b"above\n" + TREE["torch/b.py"]}, 'Revert "Fix"')
    base = read_base(series.root)
    with opened(upstream.path) as repository:
        for label, outcome in ((v2, Outcome.LANDED), (reverted, Outcome.OFFSET)):
            done = carry(series, base, CommitSnapshot(repository, label))
            assert done.results[1].outcome is outcome
            assert ("fix.patch" in done.series_files()) == (outcome is Outcome.OFFSET)


def test_a_name_that_is_taken_asks_for_a_subject(upstream: Upstream) -> None:
    commit = upstream.commit({"torch/b.py": b"fixed\n"}, "ours")
    with pytest.raises(UserError, match="ours.patch: a patch of that name exists. Use --subject"):
        upstream.pick(commit)
    picked = upstream.pick(commit, header=Header("us", subject="Another"))
    assert picked.name == "another.patch"


def test_a_bad_header_names_the_series_not_a_temporary_place(upstream: Upstream) -> None:
    commit = upstream.commit({"torch/b.py": b"fixed\n"}, "Fix")
    with pytest.raises(UserError, match=f"{upstream.series.root}.*Expires is 'soon'"):
        upstream.pick(commit, header=Header("us", expires="soon"))


def test_across_a_network_commits_are_fetched_and_files_when_read(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `file://localhost` URL uses git's network protocol, as https does."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    git(upstream.path, "config", "uploadpack.allowFilter", "true")
    git(upstream.path, "config", "uploadpack.allowAnySHA1InWant", "true")
    commit = upstream.commit({"torch/b.py": b"fixed\n"}, LANDED)
    url = f"file://localhost{upstream.path}"
    for reference in (commit, commit[:10], "77"):
        picked = upstream.pick(reference, url=url)
        assert f"Cherry-pick: {commit}\n".encode() in picked.files[picked.name]
    git(upstream.path, "checkout", "--quiet", "--detach", upstream.v1)
    lost = upstream.commit({"torch/b.py": b"lost\n"}, "No branch has it")
    git(upstream.path, "update-ref", "refs/pull/9/head", lost)
    git(upstream.path, "checkout", "--quiet", "main")
    for reference in (lost, "9"):
        picked = upstream.pick(reference, url=url)
        assert f"Cherry-pick: {lost}\n".encode() in picked.files[picked.name]
    (copy,) = upstream.cache.iterdir()
    object_types = git(
        copy, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)"
    ).split()
    assert 0 < object_types.count("blob") < 6


@pytest.mark.parametrize("form", ["squash", "merge", "bot"])
def test_every_way_in_which_github_merges(upstream: Upstream, form: str) -> None:
    """Earlier and later commits that only mention #8, and a revert of it, are not picked."""
    files = {"torch/b.py": edited(3, b"fixed\n", LINES[:20])}
    upstream.commit({"note": b"1\n"}, "Prepare for #8 (#7)")
    if form == "merge":
        git(upstream.path, "checkout", "-q", "-b", "side")
        upstream.commit(files, "wip")
        git(upstream.path, "checkout", "-q", "main")
        upstream.commit({"note": b"2\n"}, "Meanwhile (#6)")
        message = "Merge pull request #8 from someone/side\n\nFix the third line"
        git(upstream.path, "merge", "-q", "--no-ff", "-m", message, "side")
    elif form == "squash":
        upstream.commit(files, "Fix the third line (#8)\n\n* wip\n* more (#2)")
    else:
        upstream.commit(files, "Fix the third line\n\nPull Request resolved: https://h/o/r/pull/8")
    merged = git(upstream.path, "rev-parse", "HEAD")
    upstream.commit({"note": b"3\n"}, "Follow up on (#8) (#9)\n\nSee (#8).\nMerge pull request #8")
    upstream.commit({"note": b"4\n"}, 'Revert "Fix the third line (#8)" (#10)')
    history = open_history(str(upstream.path), upstream.cache, Lines())
    try:
        change = history.find("#8")
    finally:
        history.repository.close()
    assert (change.commit, change.title, change.pull) == (merged, "Fix the third line", 8)
    picked = upstream.pick("8")
    assert picked.paths == ("torch/b.py",)


def test_the_commits_of_a_branch_are_listed_across_a_network(upstream: Upstream) -> None:
    git(upstream.path, "config", "uploadpack.allowFilter", "true")
    old = git(upstream.path, "rev-parse", "HEAD")
    git(upstream.path, "checkout", "-q", "-b", "side")
    upstream.commit({"note": b"1\n"}, "wip")
    git(upstream.path, "checkout", "-q", "main")
    upstream.commit({"torch/b.py": b"1\n"}, "Fix b (#1)")
    git(upstream.path, "merge", "-q", "--no-ff", "-m", "Merge pull request #2 from x/side", "side")
    new = git(upstream.path, "rev-parse", "HEAD")
    history = open_history(f"file://localhost{upstream.path}", upstream.cache, Lines())
    try:
        arrivals = history.between(old, new, "refs/heads/main")
        assert [each.title for each in arrivals] == [
            "Merge pull request #2 from x/side",
            "Fix b (#1)",
        ]
        assert arrivals[0].commit == new
        with pytest.raises(UserError, match="the branch was rewritten"):
            history.between(new, old, "refs/heads/main")
    finally:
        history.repository.close()
