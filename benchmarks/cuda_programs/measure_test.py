# SPDX-License-Identifier: Apache-2.0
"""Test the measurements with small shell scripts instead of packed programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cuda_programs import measure


def _program(directory: Path, name: str, files: dict[str, int]) -> Path:
    """Write a program that fills an empty cache with `files`, which maps names to sizes."""
    lines = [f'[ -e "$PAR_CACHE_DIR/{file}" ] || head -c {size} /dev/zero > "$PAR_CACHE_DIR/{file}"'
             for file, size in files.items()]  # fmt: skip
    path = directory / name
    path.write_text("\n".join(["#!/bin/sh", "PATH=/usr/bin:/bin", *lines, ""]))
    path.chmod(0o755)
    return path


def test_the_figures_of_a_program(tmp_path: Path) -> None:
    par = _program(tmp_path, "a.par", {"library": 3_000_000})
    figures = {figure.case: figure for figure in measure.starts("A", par, tmp_path, rounds=2)}
    assert figures["Unpacked files"].number == 3.0
    first = figures[measure.FIRST]
    assert (first.runs, first.peer) == (2, measure.COPY)
    assert first.wall_ratio is not None
    assert first.wall_ratio > 0
    assert figures[measure.WARM].cpu_ratio is None
    assert not (tmp_path / "cache").exists()


def test_the_space_that_a_second_program_adds(tmp_path: Path) -> None:
    first = _program(tmp_path, "a.par", {"library": 3_000_000})
    second = _program(tmp_path, "b.par", {"library": 3_000_000, "own": 500_000})
    (figure,) = measure.shared(("A", first), ("B", second), tmp_path)
    assert (figure.case, figure.subject, figure.number) == ("Added to the cache of A", "B", 0.5)


def test_a_program_that_fails_ends_the_run_with_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.par"
    path.write_text("#!/bin/sh\necho first >&2\necho 'no such library' >&2\nexit 3\n")
    path.chmod(0o755)
    with pytest.raises(measure.RunFailed, match=r"bad\.par: no such library"):
        measure.import_torch(path, tmp_path)
