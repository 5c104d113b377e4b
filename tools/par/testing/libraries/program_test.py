# SPDX-License-Identifier: Apache-2.0
"""Test packed programs whose extension needs another wheel's library and the host's driver."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

_HERE = Path(__file__).parent
_PACKED, _SYSTEM = _HERE / "packed_program.par", _HERE / "system_program.par"
_NEEDED, _DRIVER = _HERE / "needed_files" / "lib", _HERE / "driver_files"
_OFF = "packed_program.par: CUDA is off, because this machine has no NVIDIA driver (libcuda.so.1)\n"


def _run(
    par: Path, cache: Path, libraries: Path | None = None, *arguments: str
) -> subprocess.CompletedProcess[str]:
    env = {"PAR_CACHE_DIR": str(cache)}
    if libraries:
        env["LD_LIBRARY_PATH"] = str(libraries)
    return subprocess.run([par, *arguments], env=env, capture_output=True, text=True, check=False)


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def _is_in(cache: Path, name: str) -> bool:
    return any(cache.rglob(name))


def test_the_library_comes_from_the_program(tmp_path: Path) -> None:
    result = _run(_PACKED, tmp_path)
    assert (result.returncode, result.stdout) == (0, "42\n")
    assert _is_in(tmp_path, "libpar_test_needed.so.1")


@pytest.mark.skipif(_has_driver(), reason="this machine has a driver")
def test_one_line_says_that_there_is_no_driver(tmp_path: Path) -> None:
    assert _run(_PACKED, tmp_path).stderr == _OFF


def test_with_a_driver_nothing_is_said(tmp_path: Path) -> None:
    assert _run(_PACKED, tmp_path, _DRIVER).stderr == ""


def test_an_interpreter_for_children_says_nothing(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.symlink_to(_PACKED)
    result = _run(python, tmp_path, None, "-c", "import par_test_needy as n; print(n.value())")
    assert (result.returncode, result.stdout, result.stderr) == (0, "42\n", "")


def test_the_library_is_left_to_the_machine(tmp_path: Path) -> None:
    result = _run(_SYSTEM, tmp_path, _NEEDED)
    assert (result.returncode, result.stdout) == (0, "42\n")
    assert not _is_in(tmp_path, "libpar_test_needed.so.1")


def test_a_machine_without_the_library_gives_one_line(tmp_path: Path) -> None:
    result = _run(_SYSTEM, tmp_path)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == (
        "ImportError: system_program.par: par_test_needy needs libpar_test_needed.so.1: not on this"
        " machine. Install CUDA and cuDNN, add their directories to LD_LIBRARY_PATH, or build the"
        ' program without cuda = "system"'
    )
