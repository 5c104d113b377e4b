# SPDX-License-Identifier: Apache-2.0
"""Test the selection of a path's filesystem, errors for unusable schemes, and retries of calls."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from etils import epath
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from torch_google import gfile
from torch_google.gfile.failures import explained
from torch_google.gfile.location import Location, locate
from torch_google.gfile.schemes import PACKAGES
from torch_google.gfile.testing.backends import Flaky


@pytest.mark.parametrize(
    ("path", "remote"),
    [
        ("memory://a", True),
        ("gs://b/k", True),
        ("HTTP://host/x", True),
        ("zip://a::/tmp/x.zip", True),
        ("simplecache::gs://b/k", True),
        ("/a/b", False),
        ("a:b", False),
        ("model::v1.pt", False),
        ("model::gs://b/k", False),
        ("file:///a", False),
        ("local:///a", False),
        ("", False),
        (b"memory://a", False),
        (Path("/a"), False),
        (gfile.GPath("memory://a"), True),
        (3, False),
        (None, False),
    ],
)
def test_what_is_remote(path: object, remote: bool) -> None:
    assert gfile.is_remote(path) is remote


@given(st.lists(st.text("ab. ä", min_size=1, max_size=3), min_size=1, max_size=4))
def test_paths_come_apart_and_together(names: list[str]) -> None:
    for root in ("/r", "memory://r", "zip://r::/x.zip", "zip://r::memory://x.zip"):
        location = locate(root).join(*names)
        assert locate(str(location)) == location
        if not any(name.strip(".") == "" for name in names):
            assert location.name == names[-1]
            assert location.parent == locate(root).join(*names[:-1])


def test_a_file_url_is_of_this_machine(tmp_path: Path) -> None:
    with gfile.Open(f"file://{tmp_path}/a", "w") as file:
        file.write("x")
    assert (tmp_path / "a").read_text() == "x"
    assert locate("/") == Location("", "/")
    assert str(locate("/a").parent) == "/"


@pytest.mark.parametrize("scheme", ["gs", "s3", "az", "hf", "sftp"])
def test_a_package_that_is_not_installed_is_named(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fsspec.registry import _registry

    package = PACKAGES[scheme]
    # Hide an installed package, because its client would look for credentials over the network.
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(_registry, scheme, raising=False)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install {package}, or add") as raised:
        gfile.Open(f"{scheme}://bucket/key")
    assert raised.value.name == package
    assert f"{scheme}://bucket/key" in str(raised.value)


def test_a_scheme_that_nobody_knows() -> None:
    with pytest.raises(ValueError, match="unknown scheme nonesuch://.*gfile.register_scheme"):
        gfile.Exists("nonesuch://a")


def test_schemes_are_registered() -> None:
    created: list[Any] = []

    def make() -> Any:
        created.append(MemoryFileSystem(global_store=False, skip_instance_cache=True))
        return created[-1]

    gfile.register_scheme("mine", make)
    assert not created, "it must be created on first use"
    with gfile.Open("mine://a", "w") as file:
        file.write("x")
    assert gfile.ListDir("mine://") == ["a"]
    assert len(created) == 1
    assert not gfile.Exists("memory://a")
    with pytest.raises(ValueError, match="pass overwrite=True"):
        gfile.register_scheme("mine", make)
    with pytest.raises(ValueError, match="give lower-case letters"):
        gfile.register_scheme("Mine://", make)


def test_a_class_is_known_to_fsspec_as_well() -> None:
    import fsspec

    gfile.register_scheme("flaky", Flaky, overwrite=True)
    assert fsspec.get_filesystem_class("flaky") is Flaky


class _Numbers(gfile.Filesystem):
    """A Filesystem with one file per number; each contains the number's square."""

    def status(self, path: str) -> gfile.FileStatus:
        inner = locate(path).inner
        with explained("no status", path):
            if inner and not inner.isdigit():
                raise FileNotFoundError
        return gfile.FileStatus(4, is_directory=not inner)

    def open_to_read(self, path: str) -> Any:
        self.status(path)
        return io.BytesIO(b"%d" % int(locate(path).inner) ** 2)

    def _refuse(self, path: str, *_: object, **__: object) -> Any:
        raise OSError(errno.EROFS, "numbers are read-only", path)

    open_to_write = make_directory = remove = remove_tree = rename = _refuse  # type: ignore[assignment]

    def entries(self, path: str) -> dict[str, bool]:
        return {str(number): False for number in range(3)}


def test_a_filesystem_of_ones_own() -> None:
    gfile.register_scheme("number", _Numbers(), overwrite=True)
    assert gfile.Open("number://12").read() == "144"
    assert gfile.Glob("number://[12]") == ["number://1", "number://2"]
    with pytest.raises(FileNotFoundError, match="number://x"):
        gfile.Open("number://x")
    with pytest.raises(OSError, match="numbers are read-only"):
        gfile.Open("number://1", "w")


def test_an_archive_in_a_store(tmp_path: Path) -> None:
    with gfile.Open("memory://archives/a.zip", "wb") as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr("in/side.txt", "found")
    path = gfile.GPath("zip://in::memory://archives/a.zip")
    assert (path / "side.txt").read_text() == "found"
    assert [str(each) for each in path.iterdir()] == ["zip://in/side.txt::memory://archives/a.zip"]
    with pytest.raises(FileNotFoundError):
        gfile.Open("zip://a::memory://archives/none.zip")


# Tests of names that contain `::`.


@pytest.mark.parametrize("name", ["model::v1.pt", "s3::model.pt", "a::b::c", "::", "a::"])
def test_colons_in_a_name_of_this_machine(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not gfile.is_remote(name)
    with gfile.Open(name, "w") as file:
        file.write("x")
    assert os.listdir(tmp_path) == [name]
    assert gfile.GPath(name).read_text() == "x"


def test_colons_in_a_name_of_a_store() -> None:
    with gfile.Open("memory://colons/model::v1.pt", "w") as file:
        file.write("x")
    assert gfile.ListDir("memory://colons") == ["model::v1.pt"]
    assert (gfile.GPath("memory://colons") / "model::v1.pt").read_text() == "x"
    gfile.Rename("memory://colons/model::v1.pt", "memory://colons/plain")
    with gfile.Open("simplecache::memory://colons/plain") as file:
        assert file.read() == "x"
    gfile.DeleteRecursively("memory://colons")


# Tests of GPath behavior that table_test.py does not cover.


def test_a_path_is_epaths() -> None:
    path = epath.Path("memory://a/b")
    assert type(path) is gfile.GPath
    assert isinstance(path, epath.Path)
    assert os.fspath(path / "c") == "memory://a/b/c"
    assert str(path.parent.parent) == "memory://"
    assert path.with_suffix(".txt").name == "b.txt"
    assert (path / "c").relative_to(path) == gfile.GPath("c")
    assert len({gfile.GPath("memory://a/b"), path}) == 1
    assert gfile.GPath("memory://a") != gfile.GPath("/memory/a")
    assert type(epath.Path("gs://bucket/key")).__name__ == "PosixGPath", (
        "epath keeps its own schemes"
    )


def test_a_path_writes_and_removes(tmp_path: Path) -> None:
    for root in (gfile.GPath(tmp_path), gfile.GPath("memory://gpath")):
        directory = root / "made" / "below"
        with pytest.raises(FileNotFoundError):
            (root / "no" / "parent").mkdir()
        directory.mkdir(parents=True, exist_ok=True)
        with pytest.raises(FileExistsError):
            directory.mkdir()
        (directory / "file").write_bytes(b"x")
        assert (directory / "file").stat().length == 1
        with pytest.raises(OSError, match="not empty"):
            directory.rmdir()
        (directory / "file").rename(directory / "renamed")
        (directory / "renamed").copy(directory / "copy")
        assert [each.name for each in directory.iterdir()] == ["copy", "renamed"]
        listing = [(top.name, files) for top, _, files in (root / "made").walk(top_down=False)]
        assert listing == [("below", ["copy", "renamed"]), ("made", [])]
        (directory / "copy").unlink()
        (directory / "copy").unlink(missing_ok=True)
        with pytest.raises(FileNotFoundError):
            (directory / "copy").unlink()
        (root / "made").rmtree()
        (root / "made").rmtree(missing_ok=True)
        assert not directory.exists()


def test_a_directory_is_removed_only_when_empty(tmp_path: Path) -> None:
    for root in (gfile.GPath(tmp_path), gfile.GPath("memory://gpath")):
        (root / "empty").mkdir(parents=True)
        (root / "full").mkdir()
        (root / "full" / "file").write_bytes(b"x")
        (root / "empty").rmdir()
        assert not (root / "empty").exists()
        with pytest.raises(OSError, match=r"not empty.*DeleteRecursively") as raised:
            (root / "full").rmdir()
        assert raised.value.errno == errno.ENOTEMPTY
        with pytest.raises(NotADirectoryError):
            (root / "full" / "file").rmdir()
        with pytest.raises(FileNotFoundError):
            (root / "none").rmdir()
        (root / "full").rmtree()


def test_a_directory_that_is_written_in_stays(tmp_path: Path) -> None:
    path = gfile.GPath(tmp_path) / "run"
    path.mkdir()
    with (path / "file").open("w") as file:
        file.write("whole")
        with pytest.raises(OSError, match="being written") as raised:
            path.rmdir()
        assert raised.value.errno == errno.ENOTEMPTY
    assert (path / "file").read_text() == "whole"
    (path / "file").unlink()
    child = os.fork()
    if child == 0:
        writer = gfile.Open(path / "killed", "w")
        os.kill(os.getpid(), signal.SIGKILL)
        writer.close()
    os.waitpid(child, 0)
    assert os.listdir(path)
    path.rmdir()
    assert not path.exists()


def test_a_link_to_an_empty_directory_is_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    with pytest.raises(NotADirectoryError):
        gfile.GPath(tmp_path / "link").rmdir()
    assert (tmp_path / "link").is_dir()


# Tests of retries.


def test_delays_grow_and_differ() -> None:
    retry = gfile.Retry(first=1.0, factor=2.0, longest=5.0, jitter=0.5)
    for attempt, longest in enumerate((1.0, 2.0, 4.0, 5.0, 5.0)):
        delays = [retry.delay(attempt) for _ in range(100)]
        assert longest / 2 <= min(delays) <= max(delays) <= longest
        assert len(set(delays)) > 50
    with pytest.raises(ValueError, match="attempts are at least 1"):
        gfile.Retry(attempts=0)


class _Answered(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (TimeoutError(), True),
        (ConnectionResetError(), True),
        (BrokenPipeError(), True),
        (OSError(errno.ENETUNREACH, "no route"), True),
        (gfile.TransientError(), True),
        (_Answered(500), True),
        (_Answered(503), True),
        (_Answered(429), True),
        (_Answered(404), False),
        (_Answered(403), False),
        (FileNotFoundError(), False),
        (PermissionError(), False),
        (OSError(errno.ENOSPC, "full"), False),
        (ValueError("wrong"), False),
    ],
)
def test_what_is_asked_again(error: Exception, transient: bool) -> None:
    calls = 0

    def fail() -> None:
        nonlocal calls
        calls += 1
        raise error

    with pytest.raises(type(error)):
        gfile.Retry(attempts=3, first=0.0).call(fail, "it")
    assert calls == (3 if transient else 1)
    assert gfile.is_transient(error) is transient


@pytest.mark.parametrize(
    ("status", "kind"),
    [(403, PermissionError), (404, FileNotFoundError), (503, OSError), (504, TimeoutError)],
)
def test_an_answer_becomes_what_open_raises(status: int, kind: type[OSError]) -> None:
    with pytest.raises(kind, match="x://y"), explained("cannot open", "x://y"):
        raise _Answered(status)


def test_a_bug_stays_what_it_is() -> None:
    with pytest.raises(ZeroDivisionError), explained("cannot open", "x://y"):
        _ = 1 // 0


def test_the_door_is_light() -> None:
    program = (
        "import sys; from torch_google import gfile; gfile.Open;"
        "print([name for name in ('torch', 'fsspec', 'etils', 'absl') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.stdout == "[]\n", result.stderr
