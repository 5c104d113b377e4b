# SPDX-License-Identifier: Apache-2.0
"""The training PAR and the probe run on a machine with little more than the C library."""

from __future__ import annotations

import pathlib
import re
import shutil

import pytest

from tests.robustness import namespaces, subject

_NOEXEC_TMP_CHROOT = """
mount --rbind /proc "$1/proc"
mount -t tmpfs -o noexec none "$1/tmp"
unset PATH
exec /usr/sbin/chroot "$@"
"""


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    namespaces.require()
    return namespaces.bare_root(tmp_path / "root")


def _assert_trained(outcome: subject.Outcome) -> None:
    assert (outcome.status, outcome.err) == (0, "")
    match = re.search(r"test accuracy (0\.\d+)", outcome.out)
    assert match is not None, outcome.out
    assert float(match.group(1)) >= 0.97


def _files(root: pathlib.Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_it_trains_beside_the_c_library_alone(root: pathlib.Path) -> None:
    """The chroot has no Python, shell, /etc/passwd or /dev; HOME is unset; the network is off."""
    shutil.copy(subject.packed("examples/train.par"), root)
    before = _files(root)
    outcome = namespaces.run(
        namespaces.CHROOT, root, "/train.par", "--output=/tmp/run", network=False
    )
    _assert_trained(outcome)
    new = _files(root) - before
    assert {"tmp/run/checkpoint.pt", "tmp/run/loss.svg"} <= new
    assert {name for name in new if not name.startswith(("tmp/run/", "tmp/par-"))} == set()


@pytest.mark.full
def test_it_trains_with_nowhere_to_write(root: pathlib.Path) -> None:
    shutil.copy(subject.packed("examples/train.par"), root)
    before = _files(root)
    outcome = namespaces.run(
        namespaces.READ_ONLY_CHROOT, root, "/train.par", "--output=", network=False
    )
    _assert_trained(outcome)
    assert _files(root) == before


def test_a_tmp_without_execution_is_passed_over(root: pathlib.Path) -> None:
    shutil.copy(subject.PROBE, root)
    namespaces.run(_NOEXEC_TMP_CHROOT, root, "/probe.par").assert_ran()


def test_a_named_cache_without_execution_is_refused(root: pathlib.Path) -> None:
    shutil.copy(subject.PROBE, root)
    outcome = namespaces.run(
        _NOEXEC_TMP_CHROOT, root, "/probe.par", environment={"PAR_CACHE_DIR": "/tmp/cache"}
    )
    outcome.assert_refused("PAR_CACHE_DIR=/tmp/cache", "noexec")
