# SPDX-License-Identifier: Apache-2.0
"""The cache ignores entries and directories that another user could have written to."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import pytest

from torch_google.tpu import cache

_NOTE = ["mine"]


@pytest.fixture
def cache_directory(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "cache"
    cache.set_compile_cache(directory)
    cache.reset_statistics()
    assert _stored_note() is None
    cache.store_entry("a note", jax.local_devices()[:1], cache.Entry(None, _NOTE))
    assert _stored_note() == _NOTE
    yield directory
    cache.set_compile_cache(None)


def _stored_note() -> list[str] | None:
    entry = cache.load_entry("a note", jax.local_devices()[:1])
    return None if entry is None else entry.note


def _entry(cache_directory: Path) -> Path:
    (path,) = (path for path in cache_directory.rglob("*") if path.is_file())
    return path


def _read_with_warnings() -> tuple[object, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        notes = [_stored_note() for _ in range(2)]
    assert notes[0] == notes[1]
    return notes[0], [str(warning.message) for warning in caught]


def _give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change a file's owner or, without root privileges, pretend to be a different user."""
    if os.geteuid() == 0:
        os.chown(path, 54321, 54321)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 54321)


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777, 0o1777])
@pytest.mark.parametrize("which", ["root", "folder"])
def test_a_directory_that_others_may_write_gives_no_entry_and_one_warning(
    cache_directory: Path, which: str, mode: int
) -> None:
    directory = cache_directory if which == "root" else _entry(cache_directory).parent
    directory.chmod(mode)
    note, (warning,) = _read_with_warnings()
    assert note is None
    assert f"{directory} can be written by others (mode {mode:04o})" in warning
    assert f"Run: chmod go-w {directory}" in warning


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_an_entry_that_others_may_write_is_replaced(cache_directory: Path, mode: int) -> None:
    path = _entry(cache_directory)
    path.chmod(mode)
    note, (warning,) = _read_with_warnings()
    assert note is None
    assert f"{path} can be written by others (mode {mode:04o})" in warning
    cache.store_entry("a note", jax.local_devices()[:1], cache.Entry(None, _NOTE))
    assert _stored_note() == _NOTE
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "of",
    [
        lambda cache_directory: cache_directory,
        lambda cache_directory: _entry(cache_directory).parent,
        _entry,
    ],
    ids=["directory", "folder", "entry"],
)
def test_what_belongs_to_somebody_else_is_not_read(
    cache_directory: Path, of: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = of(cache_directory)
    _give_away(path, monkeypatch)
    note, (warning,) = _read_with_warnings()
    assert note is None
    assert "belongs to user" in warning


def test_nothing_is_written_where_others_may_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    cache.set_compile_cache(tmp_path)
    with pytest.warns(UserWarning, match="can be written by others .*Nothing more is stored"):
        cache.store_entry("a note", jax.local_devices()[:1], cache.Entry(None, _NOTE))
    assert list(tmp_path.rglob("*")) == []
    cache.set_compile_cache(None)


def _link(path: Path, elsewhere: Path) -> None:
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def _pipe(path: Path, elsewhere: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize("change", [_link, _pipe])
def test_an_entry_that_is_no_plain_file_is_not_opened(
    cache_directory: Path, tmp_path: Path, change: Callable[[Path, Path], None]
) -> None:
    change(_entry(cache_directory), tmp_path / "elsewhere")
    note, (warning,) = _read_with_warnings()
    assert (note, "is not a regular file" in warning) == (None, True)


def test_a_folder_that_is_a_link_is_not_followed(cache_directory: Path, tmp_path: Path) -> None:
    _link(_entry(cache_directory).parent, tmp_path / "elsewhere")
    note, (warning,) = _read_with_warnings()
    assert (note, "is a link or a file. Remove it" in warning) == (None, True)


def test_the_directory_itself_may_be_a_link(cache_directory: Path, tmp_path: Path) -> None:
    _link(cache_directory, tmp_path / "elsewhere")
    assert _stored_note() == _NOTE


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
@pytest.mark.parametrize("hops", [1, 2])
def test_another_users_link_to_a_directory_of_ours_is_not_followed(
    cache_directory: Path, tmp_path: Path, hops: int
) -> None:
    planted = tmp_path / "planted"
    planted.symlink_to(cache_directory)
    os.chown(planted, 54321, 54321, follow_symlinks=False)
    named = planted
    if hops == 2:
        named = tmp_path / "ours"
        named.symlink_to(planted.name)
    before = sorted(cache_directory.rglob("*"))
    cache.set_compile_cache(named)
    note, (warning,) = _read_with_warnings()
    assert (note, f"{planted} is a link of user 54321" in warning) == (None, True)
    cache.store_entry("another", jax.local_devices()[:1], cache.Entry(None, _NOTE))
    assert sorted(cache_directory.rglob("*")) == before


def test_links_in_a_circle_and_a_file_in_the_way_end_in_a_warning(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "file").touch()
    for name in ("circle", "file"):
        cache.set_compile_cache(tmp_path / name)
        note, warned = _read_with_warnings()
        assert (note, len(warned)) == (None, 1)
    cache.set_compile_cache(None)


def test_a_new_directory_is_private_under_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        cache.set_compile_cache(tmp_path / "parent" / "cache")
        cache.store_entry("a note", jax.local_devices()[:1], cache.Entry(None, _NOTE))
    finally:
        os.umask(before)
    assert _stored_note() == _NOTE
    assert all(not path.stat().st_mode & 0o077 for path in (tmp_path / "parent").rglob("*"))
    cache.set_compile_cache(None)


@pytest.mark.parametrize("scheme", ["file://", "FILE://", "local://"])
def test_a_url_of_this_machine_is_judged_alike(cache_directory: Path, scheme: str) -> None:
    cache.set_compile_cache(f"{scheme}{cache_directory}")
    assert _stored_note() == _NOTE
    cache_directory.chmod(0o777)
    note, (warning,) = _read_with_warnings()
    assert (note, "can be written by others" in warning) == (None, True)
