# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from tools.importer.drift import write_report
from tools.importer.errors import EnvironmentProblem, UserError


def test_a_report_is_written_and_the_same_one_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "drift.json"
    assert write_report(file, "one\n")
    os.utime(file, ns=(1, 1))
    assert not write_report(file, "one\n")
    assert file.stat().st_mtime_ns == 1
    assert write_report(file, "two\n")
    assert file.read_text() == "two\n"
    assert file.stat().st_mode & 0o777 == 0o666 & ~_umask()
    assert [path.name for path in tmp_path.iterdir()] == ["drift.json"]


def test_a_place_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a directory. Name a file"):
        write_report(tmp_path, "x")
    with pytest.raises(UserError, match="no directory '.*missing'. Name a file"):
        write_report(tmp_path / "missing" / "x", "x")


def test_a_full_disk_leaves_the_old_report(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(EnvironmentProblem, match="not written: File too large"):
            write_report(file, "x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
