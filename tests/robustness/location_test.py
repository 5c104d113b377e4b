# SPDX-License-Identifier: Apache-2.0
"""A PAR works if it is copied, renamed, started through a link, or replaced while it runs."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import pytest

from tests.robustness import subject


@pytest.mark.parametrize("name", ["copy", "with space.par", "ünïcode.par", "pythonic.par"])
def test_a_copy_with_another_name(tmp_path: pathlib.Path, name: str) -> None:
    par = pathlib.Path(shutil.copy(subject.PROBE, tmp_path / name))
    outcome = subject.probe(tmp_path / "cache", par=par)
    outcome.assert_ran()
    assert outcome.seen["file"] == f"{par}/tests/robustness/probe.py"


def test_copies_share_the_unpacked_libraries(tmp_path: pathlib.Path) -> None:
    subject.probe(tmp_path / "cache").assert_ran()
    before = subject.bundles(tmp_path / "cache")
    par = pathlib.Path(shutil.copy(subject.PROBE, tmp_path / "other.par"))
    subject.probe(tmp_path / "cache", par=par).assert_ran()
    assert subject.bundles(tmp_path / "cache") == before != []


def test_a_symbolic_link_runs_what_it_points_to(tmp_path: pathlib.Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(subject.PROBE)
    outcome = subject.probe(tmp_path / "cache", par=link)
    outcome.assert_ran()
    assert outcome.seen["file"] == f"{subject.PROBE}/tests/robustness/probe.py"


def test_started_through_path_and_by_a_relative_name(tmp_path: pathlib.Path) -> None:
    cache = str(tmp_path / "cache")
    by_path = subject.run(
        ["/bin/sh", "-c", "probe.par"],
        environment={"PATH": str(subject.PROBE.parent), "PAR_CACHE_DIR": cache},
    )
    by_path.assert_ran()
    relative = os.path.relpath(subject.PROBE)
    subject.run([f"./{relative}"], environment={"PAR_CACHE_DIR": cache}).assert_ran()


def test_replaced_while_it_runs(tmp_path: pathlib.Path) -> None:
    """A running program keeps reading its old file after an upgrade renames a new file over it."""
    par = pathlib.Path(shutil.copy(subject.PROBE, tmp_path / "probe.par"))
    running = subprocess.Popen(
        [par, "wait"],
        env={"PAR_CACHE_DIR": str(tmp_path / "cache")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "waiting\n"
    (tmp_path / "new").write_text("another program")
    (tmp_path / "new").replace(par)
    out, err = running.communicate("go on\n", timeout=300)
    assert (out, err, running.returncode) == ("csv\n", "", 0)


def test_a_killed_program_says_so_by_its_status(tmp_path: pathlib.Path) -> None:
    running = subprocess.Popen(
        [subject.PROBE, "wait"],
        env={"PAR_CACHE_DIR": str(tmp_path / "cache")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    running.stdout.readline()
    running.terminate()
    running.communicate(timeout=300)
    assert running.returncode == -15
