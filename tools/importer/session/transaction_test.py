# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import resource
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.session.faults import disk_full_at, killed_at
from tools.importer.session.journal import pending, recover, roll_back, undo, undoable
from tools.importer.session.transaction import Changes, Transaction
from tools.par.testing.budget import examples

OLD = {
    "pin.json": b"old pin\n",
    "patches/torch/BUILD": b"same\n",
    "patches/torch/v1/series": b"a.patch\n",
    "patches/torch/v1/a.patch": b"1\n",
}
CHANGE: dict[str, bytes | None] = {
    "pin.json": b"new pin\n",
    "patches/torch/BUILD": b"same\n",
    "patches/torch/v1/a.patch": None,
    "patches/torch/v2/series": b"a.patch\n",
    "patches/torch/v2/a.patch": b"2\n",
    "third_party/torch/METADATA": b"new\n",
}
NEW = {path: data for path, data in {**OLD, **CHANGE}.items() if data is not None}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    lay(tmp_path, OLD)
    return tmp_path


def lay(workspace: Path, files: Mapping[str, bytes]) -> None:
    for path, data in files.items():
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_bytes(data)


def tree(workspace: Path) -> dict[str, bytes]:
    return {
        path.relative_to(workspace).as_posix(): path.read_bytes()
        for path in sorted(workspace.rglob("*"))
        if path.is_file() and ".import" not in path.parts
    }


def transaction(workspace: Path, change: Mapping[str, bytes | None] = CHANGE) -> Transaction:
    work = Transaction(workspace, workspace / ".import", what="the import of v2")
    for path, data in change.items():
        if data is None:
            work.delete(path)
        else:
            work.write(path, data)
    return work


def publish(workspace: Path) -> Changes:
    return transaction(workspace).publish(last=["pin.json"], clears=["state.json"])


def test_it_publishes_and_says_what_changed(workspace: Path) -> None:
    assert publish(workspace) == Changes(
        ("patches/torch/v2/a.patch", "patches/torch/v2/series", "third_party/torch/METADATA"),
        ("pin.json",),
        ("patches/torch/v1/a.patch",),
    )
    assert tree(workspace) == NEW
    assert os.listdir(workspace / ".import") == ["undo"]


def test_files_that_would_not_change_are_not_touched(workspace: Path) -> None:
    before = (workspace / "patches/torch/BUILD").stat()
    publish(workspace)
    after = (workspace / "patches/torch/BUILD").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert not publish(workspace)


def test_an_existing_file_keeps_its_mode_and_a_new_one_obeys_the_umask(workspace: Path) -> None:
    (workspace / "pin.json").chmod(0o640)
    previous = os.umask(0o027)
    try:
        publish(workspace)
    finally:
        os.umask(previous)
    assert (workspace / "pin.json").stat().st_mode & 0o777 == 0o640
    assert (workspace / "patches/torch/v2/series").stat().st_mode & 0o777 == 0o640


def test_killed_at_any_call_the_next_command_finds_the_old_tree_or_finishes(tmp_path: Path) -> None:
    outcomes = []
    for number in range(1000):
        workspace = tmp_path / str(number)
        lay(workspace, OLD)
        lay(workspace, {".import/state.json": b"{}"})
        killed = killed_at(number, lambda root=workspace: publish(root))  # type: ignore[misc]
        begun = pending(workspace / ".import")
        message = recover(workspace, workspace / ".import")
        now = tree(workspace)
        assert now in (OLD, NEW), number
        assert not message or begun
        assert not begun or now == NEW
        # The command's state must exist until all files have been moved into place.
        assert (workspace / ".import/state.json").exists() == (now == OLD)
        assert set(os.listdir(workspace / ".import")) <= {"state.json", "undo"}
        outcomes.append(now == NEW)
        if not killed:
            break
    assert outcomes == sorted(outcomes), "once the journal is valid there is no way to the old tree"
    assert 20 < outcomes.index(True) < len(outcomes) - 10


def test_killed_at_any_call_abort_takes_everything_back(tmp_path: Path) -> None:
    for number in range(1000):
        workspace = tmp_path / str(number)
        lay(workspace, OLD)
        killed = killed_at(number, lambda root=workspace: publish(root))  # type: ignore[misc]
        begun = (workspace / ".import/publish").exists()
        message = roll_back(workspace, workspace / ".import")
        assert (message is not None) == begun
        recover(workspace, workspace / ".import")
        if begun:
            assert tree(workspace) == OLD, number
            assert not (workspace / "patches/torch/v2").exists()
        assert set(os.listdir(workspace)) <= {"pin.json", "patches", "third_party", ".import"}
        if not killed:
            assert tree(workspace) == NEW
            return
    raise AssertionError("the publication never ended")


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=4), st.integers(25, 60))
def test_killed_again_and_again(kills: list[tuple[int, bool]], first: int) -> None:
    """Also kill recoveries and rollbacks, in any order. The final files are all old or all new."""
    with tempfile.TemporaryDirectory() as directory:
        workspace, state = Path(directory), Path(directory) / ".import"
        lay(workspace, OLD)
        killed_at(first, lambda: publish(workspace))
        taken_back = False
        for number, back in kills:
            step = roll_back if back else recover
            killed_at(number, lambda step=step: step(workspace, state))  # type: ignore[misc]
            taken_back = taken_back or (state / "publish.back").exists()
        recover(workspace, state)
        assert tree(workspace) in (OLD, NEW)
        assert not taken_back or tree(workspace) == OLD
        assert not pending(state)


def test_a_full_disk_at_any_call_is_one_line_and_the_old_tree(tmp_path: Path) -> None:
    failed = 0
    for number in range(1000):
        workspace = tmp_path / str(number)
        lay(workspace, OLD)
        error = disk_full_at(number, lambda root=workspace: publish(root))  # type: ignore[misc]
        if error is None:
            recover(workspace, workspace / ".import")  # it must succeed despite leftover files
            assert tree(workspace) == NEW
            if not failed or number > failed + 20:
                break
            continue
        failed = number
        assert isinstance(error, EnvironmentProblem), (number, error)
        assert "\n" not in str(error)
        assert "No space left on device" in str(error)
        assert "the import of v2" in str(error)
        if "Nothing was changed" in str(error) or "Everything was put back" in str(error):
            assert tree(workspace) == OLD, number
        else:
            assert "the next command cleans up" in str(error)
            assert tree(workspace) == NEW, number
        recover(workspace, workspace / ".import")
        assert not pending(workspace / ".import")
    assert failed > 20


def test_undo_restores_every_file_and_the_state(workspace: Path) -> None:
    state = workspace / ".import"
    lay(workspace, {".import/state.json": b"{}"})
    before = {path: (workspace / path).stat() for path in OLD}
    publish(workspace)
    last = undoable(state)
    assert last is not None
    assert last.what == "the import of v2"
    undo(workspace, state)
    assert tree(workspace) == OLD
    assert os.listdir(state) == ["state.json"]
    assert not (workspace / "patches/torch/v2").exists()
    for path, status in before.items():  # unchanged timestamps, so that Bazel rebuilds nothing
        assert (workspace / path).stat().st_mtime_ns == status.st_mtime_ns
    assert undoable(state) is None


def test_killed_at_any_call_undo_is_finished_by_the_next_command(tmp_path: Path) -> None:
    for number in range(1000):
        workspace, state = tmp_path / str(number), tmp_path / str(number) / ".import"
        lay(workspace, OLD)
        lay(workspace, {".import/state.json": b"{}"})
        publish(workspace)
        killed = killed_at(number, lambda: undo(workspace, state))  # noqa: B023
        begun = not (state / "undo").exists()
        recover(workspace, state)
        assert tree(workspace) == (OLD if begun else NEW), number
        assert (state / "state.json").exists() == begun
        assert not pending(state)
        if not killed:
            assert number > 10
            return
    raise AssertionError("undo never ended")


@pytest.mark.parametrize(
    "path", ["pin.json", "patches/torch/v1/a.patch", "patches/torch/v2/series"]
)
def test_undo_never_overwrites_an_edit(workspace: Path, path: str) -> None:
    publish(workspace)
    lay(workspace, {path: b"mine\n"})
    with pytest.raises(UserError, match=f"the import of v2 cannot be undone: {path} changed since"):
        undo(workspace, workspace / ".import")
    assert tree(workspace) == {**NEW, path: b"mine\n"}


def test_a_publication_replaces_the_one_that_can_be_undone(workspace: Path) -> None:
    publish(workspace)
    transaction(workspace, {"pin.json": b"newer pin\n"}).publish()
    undo(workspace, workspace / ".import")
    assert tree(workspace) == NEW


@contextmanager
def files_at_most(size: int) -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_file_that_the_system_refuses_leaves_the_old_tree(workspace: Path) -> None:
    work = transaction(workspace, {**CHANGE, "big": b"x" * 100_000})
    with files_at_most(65536), pytest.raises(EnvironmentProblem, match="File too large"):
        work.publish()
    assert tree(workspace) == OLD


def test_it_never_finishes_over_an_edit_made_after_the_kill(workspace: Path) -> None:
    state = workspace / ".import"
    number = 0
    while not pending(state):
        assert killed_at(number, lambda: publish(workspace))
        number += 1
    (workspace / "pin.json").write_bytes(b"mine\n")
    with pytest.raises(UserError, match=r"pin\.json: edited after a command was killed"):
        recover(workspace, state)
    assert (workspace / "pin.json").read_bytes() == b"mine\n"
    (workspace / "pin.json").write_bytes(OLD["pin.json"])
    assert recover(workspace, state) == "finished what was interrupted: the import of v2"
    assert tree(workspace) == NEW


@pytest.mark.parametrize(
    "path", ["/etc/x", "../x", "a/../../x", "a//b", "", ".", "a/.", "a\\b", "a\0b"]
)
def test_a_path_outside_the_workspace_is_refused(workspace: Path, path: str) -> None:
    with pytest.raises(UserError, match="not a plain path below"):
        transaction(workspace, {path: b"x"})


def test_a_symlink_on_the_way_is_refused(
    workspace: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (workspace / "patches/other").symlink_to(outside)
    with pytest.raises(UserError, match="'patches/other' is a symlink"):
        transaction(workspace, {"patches/other/x": b"x"})
    (workspace / "patches/link.json").symlink_to(workspace / "pin.json")
    with pytest.raises(UserError, match="is a symlink"):
        transaction(workspace, {"patches/link.json": b"x"})


def test_something_in_the_way_is_refused(workspace: Path) -> None:
    with pytest.raises(UserError, match="is a file, not a directory"):
        transaction(workspace, {"pin.json/x": b"x"})
    with pytest.raises(UserError, match="is a directory"):
        transaction(workspace, {"patches/torch": b"x"})
