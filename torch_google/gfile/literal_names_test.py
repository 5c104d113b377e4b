# SPDX-License-Identifier: Apache-2.0
"""Every gfile call takes names literally, on every backend. Only Glob expands patterns."""

from __future__ import annotations

import errno
import glob
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tools.par.testing.budget import examples
from torch_google import gfile
from torch_google.gfile.testing.backends import NAMES, WRITABLE, Backend, backend
from torch_google.gfile.testing.cloud_servers import missing
from torch_google.gfile.testing.object_stores import Objects, Strict

LITERAL = [
    "run*",
    "run?",
    "run[1]",
    "run[!1]",
    "**",
    "[]",
    "{run1,run2}",
    "100%",
    "%41",
    "a b",
    " a ",
    "a#b",
    "a?b=1",
    "line\nbreak",
    "caf\u00e9",
    "cafe\u0301",
    "a::b",
    "~",
    "-r",
    "a\\b",
    "'\"&;<>",
    "run1.",
]
# The test servers return 404 for these names, although the clients percent-encode them.
UNSERVED = {("s3", "line\nbreak"), ("gs", "'\"&;<>")}
# Names of files that a call would also affect if it expanded or decoded a name in LITERAL.
SIBLINGS = ("run1", "run2", "run10", "A", "a", "b", "line", "100", "cafe")


@pytest.fixture(params=WRITABLE)
def writable(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    with backend(request.param, tmp_path, _siblings()) as store:
        yield store


@pytest.fixture(params=LITERAL)
def name(request: pytest.FixtureRequest, writable: Backend) -> str:
    literal: str = request.param
    if (writable.name, literal) in UNSERVED:
        pytest.skip(f"the test server of {writable.name} does not support the name {literal!r}")
    return literal


def _siblings(top: str = "top") -> dict[str, bytes]:
    files = {f"{top}/{name}/kept": name.encode() for name in SIBLINGS}
    return files | {f"{top}/{name}.pt": name.encode() for name in SIBLINGS}


def _write(path: str, content: bytes) -> None:
    with gfile.Open(path, "wb") as file:
        file.write(content)


def _read(path: str) -> bytes:
    with gfile.Open(path, "rb") as file:
        data: bytes = file.read()
    return data


def _tree(top: str) -> dict[str, bytes]:
    return {
        f"{directory.removeprefix(top)}/{name}": _read(f"{directory}/{name}")
        for directory, _, files in gfile.Walk(top)
        for name in files
    }


def test_a_files_name_is_literal(writable: Backend, name: str) -> None:
    top = writable.path("top")
    siblings = _tree(top)
    path = f"{top}/{name}.pt"
    _write(path, b"one")
    assert gfile.Exists(path)
    assert not gfile.IsDirectory(path)
    assert gfile.Stat(path).length == 3
    with gfile.Open(path, "ab") as file:
        file.write(b"+")
    with pytest.raises(FileExistsError):
        gfile.Open(path, "x")
    assert f"{name}.pt" in gfile.ListDir(top)
    assert gfile.Glob(glob.escape(path)) == [path]
    assert _tree(top) == siblings | {f"/{name}.pt": b"one+"}
    gfile.Copy(path, f"{top}/{name}.copy")
    gfile.Rename(f"{top}/{name}.copy", path, overwrite=True)
    gfile.Rename(path, f"{top}/{name}")
    assert _tree(top) == siblings | {f"/{name}": b"one+"}
    gfile.Remove(f"{top}/{name}")
    assert _tree(top) == siblings
    with pytest.raises(FileNotFoundError):
        gfile.Open(path, "rb")
    for action in (gfile.Remove, gfile.DeleteRecursively):
        with pytest.raises(FileNotFoundError):
            action(path)
    assert _tree(top) == siblings


def test_a_directorys_name_is_literal(writable: Backend, name: str) -> None:
    top = writable.path("top")
    siblings = _tree(top)
    path = f"{top}/{name}"
    gfile.MakeDir(path)
    gfile.MakeDirs(f"{path}/below")
    _write(f"{path}/below/{name}", b"two")
    assert gfile.IsDirectory(path)
    gfile.Sweep(path)
    assert gfile.ListDir(path) == ["below"]
    assert gfile.ListDir(f"{path}/") == ["below"]
    assert gfile.Glob(f"{glob.escape(path)}/*/*") == [f"{path}/below/{name}"]
    assert _tree(top) == siblings | {f"/{name}/below/{name}": b"two"}
    gfile.Rename(path, f"{top}/moved")
    assert _tree(top) == siblings | {f"/moved/below/{name}": b"two"}
    gfile.Rename(f"{top}/moved", path)
    assert _tree(top) == siblings | {f"/{name}/below/{name}": b"two"}
    gfile.DeleteRecursively(path)
    assert not gfile.Exists(path)
    assert _tree(top) == siblings


def test_a_gpaths_name_is_literal(writable: Backend, name: str) -> None:
    top = gfile.GPath(writable.path("top"))
    siblings = _tree(str(top))
    path = top / name
    assert path.name == name
    path.mkdir()
    (path / name).write_bytes(b"x")
    assert path.is_dir()
    assert [each.name for each in path.iterdir()] == [name]
    assert [each.name for each in path.glob("*")] == [name]
    assert [each.name for each in top.glob(glob.escape(name))] == [name]
    (path / name).rename(path / "renamed")
    (path / "renamed").replace(path / name)
    (path / name).copy(path / "copy").unlink()
    assert _tree(str(top)) == siblings | {f"/{name}/{name}": b"x"}
    path.rename(top / "moved").replace(path)
    (path / name).unlink()
    if path.exists():  # in some stores, directories exist only as parts of file names
        path.rmdir()
    (path / "again").parent.mkdir(parents=True, exist_ok=True)
    (path / "again").write_bytes(b"x")
    path.rmtree()
    assert _tree(str(top)) == siblings


@pytest.mark.parametrize("backend_name", NAMES)
def test_literal_names_are_read(backend_name: str, tmp_path: Path) -> None:
    # An archive member's name ends at the first `::`, so it cannot contain one.
    names = [name for name in LITERAL if backend_name != "zip" or "::" not in name]
    names = [name for name in names if (backend_name, name) not in UNSERVED]
    files = _siblings()
    for name in names:
        files |= {f"top/{name}.pt": f"file {name}".encode(), f"top/in {name}/file": name.encode()}
    with backend(backend_name, tmp_path, files) as store:
        top = store.path("top")
        listed = [store.written(path.split("/")[1]) for path in files]
        assert gfile.ListDir(top) == sorted(set(listed))
        for name in names:
            path, inside = store.written(f"top/{name}.pt"), store.written(f"top/in {name}")
            assert _read(store.path(path)) == f"file {name}".encode()
            assert gfile.Stat(store.path(path)).length == len(f"file {name}".encode())
            assert gfile.Glob(glob.escape(store.path(path))) == [store.path(path)]
            assert gfile.IsDirectory(store.path(inside))
            assert gfile.ListDir(store.path(inside)) == ["file"]
            [(walked, directories, files_)] = gfile.Walk(store.path(inside))
            assert (walked, directories, files_) == (store.path(inside), [], ["file"])
            assert gfile.GPath(store.path(f"{inside}/file")).read_bytes() == name.encode()
            gfile.Copy(store.path(path), str(tmp_path / "copy"), overwrite=True)
            assert (tmp_path / "copy").read_bytes() == f"file {name}".encode()


def test_a_slash_at_the_end_names_a_directory(writable: Backend) -> None:
    top = writable.path("top")
    siblings = _tree(top)
    for name in ("run1", "run*"):
        _write(f"{top}/{name}.pt", b"x")
        assert not gfile.Exists(f"{top}/{name}.pt/")
        for action in (gfile.Open, gfile.Stat, gfile.Remove, gfile.ListDir):
            with pytest.raises(NotADirectoryError):
                action(f"{top}/{name}.pt/")
        with pytest.raises(NotADirectoryError):
            gfile.Rename(f"{top}/{name}.pt", f"{top}/new/")
        for mode in "wax":
            with pytest.raises(IsADirectoryError):
                gfile.Open(f"{top}/new/", mode)
        gfile.Remove(f"{top}/{name}.pt")
    gfile.MakeDirs(f"{top}/run*/")
    _write(f"{top}/run*/file", b"x")
    gfile.Rename(f"{top}/run*/", f"{top}/moved*/")
    assert gfile.ListDir(f"{top}/moved*/") == ["file"]
    gfile.DeleteRecursively(f"{top}/moved*/")
    del siblings["/run1.pt"]
    assert _tree(top) == siblings


def test_a_directory_is_not_opened(writable: Backend) -> None:
    for path in (writable.path("top"), writable.path("top/run1"), writable.path("top/run1/")):
        for mode in ("r", "rb", "w", "a"):
            with pytest.raises(IsADirectoryError) as raised:
                gfile.Open(path, mode)
            assert raised.value.errno == errno.EISDIR
            assert raised.value.filename == path


def test_a_directory_of_an_archive_is_not_opened(tmp_path: Path) -> None:
    with backend("zip", tmp_path) as store:
        for name in ("sub", "sub/", "sub/deep"):
            with pytest.raises(IsADirectoryError):
                gfile.Open(store.path(name), "rb")


def test_a_directory_is_not_moved_into_itself(writable: Backend) -> None:
    top = writable.path("top")
    siblings = _tree(top)
    with pytest.raises(OSError) as raised:
        gfile.Rename(f"{top}/run1", f"{top}/run1/below")
    assert raised.value.errno == errno.EINVAL
    gfile.Rename(f"{top}/run1", f"{top}/run11")
    gfile.Rename(f"{top}/run11", f"{top}/run1")
    assert _tree(top) == siblings


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_a_cloud_is_among_the_backends(scheme: str) -> None:
    if missing(scheme):
        pytest.skip(f"not installed: {', '.join(missing(scheme))}; the tables run without {scheme}")
    assert scheme in WRITABLE


# Tests with random names, on an in-memory store and on one that records its calls.

_NAME = st.one_of(
    st.sampled_from(LITERAL),
    st.text(st.sampled_from("run12*?[]!{},%#~\n \u00e9"), min_size=1, max_size=6),
).filter(lambda name: name.strip(".") != "")


@pytest.mark.parametrize("kind", [Strict, Objects])
def test_siblings_survive_any_name(kind: Any) -> None:
    actions: dict[str, Callable[[str], object]] = {
        "delete": gfile.DeleteRecursively,
        "rmtree": lambda path: gfile.GPath(path).rmtree(),
        "rename": lambda path: gfile.Rename(path, "any://elsewhere"),
        "replace": lambda path: gfile.GPath(path).replace("any://elsewhere"),
    }

    @settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.lists(st.tuples(_NAME, _NAME), unique=True, min_size=1, max_size=6),
        st.lists(_NAME, max_size=4),
        st.sampled_from(sorted(actions)),
        st.data(),
    )
    def check(
        pairs: list[tuple[str, str]], files: list[str], action: str, data: st.DataObject
    ) -> None:
        store = kind(global_store=False, skip_instance_cache=True)
        gfile.register_scheme("any", store, overwrite=True)
        names = {f"top/{directory}/{name}" for directory, name in pairs}
        directories = {directory for directory, _ in pairs}
        names |= {f"top/{name}" for name in files if name not in directories}
        for name in names:
            _write(f"any://{name}", name.encode())
        target = data.draw(st.sampled_from(sorted({"/".join(n.split("/")[:2]) for n in names})))
        target_names = {name for name in names if name == target or name.startswith(f"{target}/")}
        if isinstance(store, Objects):
            store.changes.clear()
        actions[action](f"any://{target}")
        remaining = {f"top{name}": content for name, content in _tree_of("any://top").items()}
        assert remaining == {name: name.encode() for name in names - target_names}
        if action.startswith("re"):
            moved = {f"elsewhere{name.removeprefix(target)}" for name in target_names}
            assert {name for name in moved if gfile.Exists(f"any://{name}")} == moved
        if isinstance(store, Objects):
            changed_names = {name for _, *change in store.changes for name in change}
            assert {
                name for name in changed_names if not name.startswith("elsewhere")
            } == target_names

    check()


def _tree_of(top: str) -> dict[str, bytes]:
    return _tree(top) if gfile.Exists(top) else {}


def test_a_call_that_reads_a_pattern_is_refused() -> None:
    """Both test stores raise if a test uses fsspec's own calls, which would expand a pattern."""
    calls: list[Callable[[Objects | Strict], object]] = [
        lambda store: store.rm("a*", recursive=True),
        lambda store: store.mv("a*", "b"),
        lambda store: store.copy("a*", "b"),
        lambda store: store.cat("a*"),
        lambda store: store.glob("a*"),
    ]
    for kind in (Objects, Strict):
        store = kind(global_store=False, skip_instance_cache=True)
        for call in calls:
            with pytest.raises(AssertionError, match="is read as a pattern"):
                call(store)
