# SPDX-License-Identifier: Apache-2.0
"""PARs handle a library cache that is shared, full, incomplete or owned by another user."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

from tests.robustness import namespaces, subject

_NOBODY = 65534


def test_eight_first_starts_at_once(tmp_path: pathlib.Path) -> None:
    starts = [
        subprocess.Popen(
            [subject.PROBE],
            env={"PAR_CACHE_DIR": str(tmp_path / "cache")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(8)
    ]
    outcomes = [(*start.communicate(timeout=300), start.returncode) for start in starts]
    assert {(err, status) for _, err, status in outcomes} == {("", 0)}
    assert len({out for out, _, _ in outcomes}) == 1, "all loaded the same library"
    assert subject.partial_work(tmp_path / "cache") == []


def test_a_warm_start_unpacks_nothing(tmp_path: pathlib.Path) -> None:
    def times() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in tmp_path.rglob("*.so*")}

    subject.probe(tmp_path).assert_ran()
    before = times()
    assert before
    subject.probe(tmp_path).assert_ran()
    assert times() == before


def test_an_incomplete_library_is_unpacked_again(tmp_path: pathlib.Path) -> None:
    """After a power loss, a file may exist but lack some of its contents."""
    subject.probe(tmp_path).assert_ran()
    library = max(tmp_path.rglob("*.so*"), key=lambda path: path.stat().st_size)
    os.truncate(library, 100)
    subject.probe(tmp_path).assert_ran()
    assert library.stat().st_size > 100


def test_killed_while_unpacking(tmp_path: pathlib.Path) -> None:
    for attempt in range(100):
        cache = tmp_path / str(attempt)
        start = subprocess.Popen(
            [subject.PROBE],
            env={"PAR_CACHE_DIR": str(cache)},
            stdout=subprocess.DEVNULL,
            preexec_fn=lambda: os.nice(19),  # so that this process sees the partial work in time
        )
        while start.poll() is None and not (cache.is_dir() and subject.partial_work(cache)):
            time.sleep(0.0005)
        start.kill()
        if start.wait() == -signal.SIGKILL and subject.partial_work(cache):
            break
    else:
        pytest.fail("none of 100 starts could be killed while it unpacked")
    subject.probe(cache).assert_ran()
    assert subject.partial_work(cache) == [], "the next start must remove the partial directory"


# $1 is the PAR, $2 the mount point of a small disk. The first run fills the disk; then the disk is
# enlarged.
_SMALL_DISK = """
mount -t tmpfs -o size=2m,mode=700 none "$2"
PAR_CACHE_DIR="$2" "$1" || echo "status $?"
test -z "$(find "$2" -name '*.so*')"
mount -o remount,size=500m "$2"
PAR_CACHE_DIR="$2" "$1"
test -n "$(find "$2" -name '*.so*')"
"""


def test_a_disk_that_is_full(tmp_path: pathlib.Path) -> None:
    """A program that cannot unpack its libraries prints one warning and loads them from memory.

    When the disk has space again, the next run unpacks them.
    """
    namespaces.require()
    outcome = namespaces.run(_SMALL_DISK, subject.PROBE, tmp_path)
    assert outcome.status == 0, outcome.err
    assert outcome.err.count("\n") == 1, outcome.err
    assert str(tmp_path) in outcome.err
    assert "no space left" in outcome.err
    first, second = outcome.out.splitlines()
    assert '"sum": 45' in first
    assert str(tmp_path) not in first
    assert '"sum": 45' in second
    assert str(tmp_path) in second


def _foreign(directory: pathlib.Path) -> pathlib.Path:
    directory.mkdir(parents=True, mode=0o700)
    try:
        os.chown(directory, _NOBODY, _NOBODY)
    except OSError as error:
        pytest.skip(f"only root can give a directory to another user: {error.strerror}")
    return directory


def test_a_named_cache_of_another_user_is_refused(tmp_path: pathlib.Path) -> None:
    cache = _foreign(tmp_path / "cache")
    subject.probe(cache).assert_refused(f"PAR_CACHE_DIR={cache}", f"owned by user {_NOBODY}")
    assert list(cache.iterdir()) == []


def test_a_found_cache_of_another_user_is_passed_over(tmp_path: pathlib.Path) -> None:
    cache = _foreign(tmp_path / "xdg" / "par")
    outcome = subject.run(
        [subject.PROBE],
        environment={"XDG_CACHE_HOME": str(tmp_path / "xdg"), "TMPDIR": str(tmp_path)},
    )
    outcome.assert_ran_with_warning(str(cache), f"owned by user {_NOBODY}")
    assert list(cache.iterdir()) == []


def test_a_cache_that_others_can_write_to_is_refused(tmp_path: pathlib.Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    subject.probe(cache).assert_refused(f"PAR_CACHE_DIR={cache}", "writable by others")


def test_a_named_cache_that_cannot_be_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    subject.probe(tmp_path / "file" / "cache").assert_refused("PAR_CACHE_DIR=", "file/cache")
    subject.probe(tmp_path / "file").assert_refused("PAR_CACHE_DIR=", "file")


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (("XDG_CACHE_HOME", "HOME", "TMPDIR"), "XDG_CACHE_HOME/par"),
        (("HOME", "TMPDIR"), "HOME/.cache/par"),
        (("TMPDIR",), f"TMPDIR/par-{os.geteuid()}"),
        (("PAR_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "TMPDIR"), "PAR_CACHE_DIR"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_first_place_that_serves_is_the_only_one(
    tmp_path: pathlib.Path, variables: tuple[str, ...], expected: str
) -> None:
    for name in variables:
        (tmp_path / name).mkdir()
    outcome = subject.run(
        [subject.PROBE], environment={name: str(tmp_path / name) for name in variables}
    )
    outcome.assert_ran()
    assert outcome.seen["library"].startswith(f"{tmp_path}/{expected}/")
    unpacked = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*.so*")}
    assert unpacked == {variables[0]}


def test_nothing_is_written_outside_the_cache(tmp_path: pathlib.Path) -> None:
    namespaces.require()
    for name in ("cache", "home"):
        (tmp_path / name).mkdir()
    par = shutil.copy(subject.PROBE, tmp_path / "home" / "probe.par")
    script = """
    mount -t tmpfs none /tmp
    mount -t tmpfs none /var/tmp
    cd "$2"
    "$1"
    find /tmp /var/tmp "$2" -type f -newer "$1"
    """
    if tmp_path.is_relative_to("/tmp") or tmp_path.is_relative_to("/var/tmp"):
        script = script.replace("mount -t tmpfs none /tmp", "").replace("/tmp /var", "/var")
    outcome = namespaces.run(
        script,
        par,
        tmp_path / "home",
        environment={"HOME": str(tmp_path / "home"), "PAR_CACHE_DIR": str(tmp_path / "cache")},
    )
    outcome.assert_ran()
