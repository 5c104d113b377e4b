# SPDX-License-Identifier: Apache-2.0
"""Test the measurements with small shell scripts instead of packed programs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.par_startup.measure import EXPECTED, Peer, Sample, StartError, start
from benchmarks.programs import measure
from benchmarks.programs.forms import ENVIRONMENT, CommandError, Par, run, size
from benchmarks.results import Figure


def _program(directory: Path, name: str, files: dict[str, int]) -> Path:
    """Write a program that fills an empty cache with `files`, which maps names to sizes."""
    lines = [f'[ -e "$PAR_CACHE_DIR/{file}" ] || head -c {size} /dev/zero > "$PAR_CACHE_DIR/{file}"'
             for file, size in files.items()]  # fmt: skip
    path = directory / name
    output = EXPECTED.decode().strip()
    path.write_text(
        "\n".join(["#!/bin/sh", 'mkdir -p "$PAR_CACHE_DIR"', *lines, f"echo '{output}'", ""])
    )
    path.chmod(0o755)
    return path


class _Copied:
    """A form with a set-up: a copy of a directory. It counts the starts that found old files."""

    def __init__(self, name: str, source: Path, directory: Path) -> None:
        self._source, self._directory = source, directory / "copied"
        code = f"print('{EXPECTED.decode().strip()}')"
        self.peer = Peer(name, (sys.executable, "-c", code), ENVIRONMENT)
        self.inputs = (source,)
        self.found: list[bool] = []

    def clear(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    def set_up(self) -> Sample:
        self.found.append(self._directory.exists())
        return run(["/bin/cp", "-r", self._source, self._directory], environment=ENVIRONMENT)

    def shipped(self) -> int:
        return size(self._source)

    def on_disk(self) -> int:
        return size(self._directory)


@pytest.fixture
def forms(tmp_path: Path) -> tuple[Par, _Copied]:
    par = _program(tmp_path, "a.par", {"library": 3_000_000})
    source = tmp_path / "source"
    source.mkdir()
    (source / "library").write_bytes(bytes(2_000_000))
    return Par("PAR", par, tmp_path / "par"), _Copied("venv", source, tmp_path)


def _numbers(figures: Sequence[Figure], case: str) -> dict[str, float | None]:
    return {figure.subject: figure.number for figure in figures if figure.case == case}


def test_sizes_are_those_of_the_shipped_files_and_of_the_files_after_a_start(
    forms: tuple[Par, _Copied], tmp_path: Path
) -> None:
    figures = measure.figures(measure.observe(forms, rounds=1, warm_rounds=1), base="venv")
    (tmp_path / "link").hardlink_to(tmp_path / "par/cache/library")
    assert size(tmp_path / "par/cache") == 3_000_000
    assert _numbers(figures, measure.SHIPPED) == {"PAR": 0.0, "venv": 2.0}
    assert _numbers(figures, measure.ON_DISK) == {"PAR": 3.0, "venv": 2.0}
    assert measure.cache_figure(forms[0]).number == 3.0


def test_each_round_sets_up_again_and_counts_the_set_up(forms: tuple[Par, _Copied]) -> None:
    observed = measure.observe(forms, rounds=2, warm_rounds=3)
    assert forms[1].found == [False, False]
    rows = {
        (figure.case, figure.subject): figure for figure in measure.figures(observed, base="venv")
    }
    par, venv = rows[measure.FROM_SHIPPED, "PAR"], rows[measure.FROM_SHIPPED, "venv"]
    assert (par.runs, par.peer, venv.cpu_ratio, venv.wall_ratio) == (2, "venv", 1.0, 1.0)
    assert par.cpu_ratio is not None
    assert par.cpu_ratio > 0
    assert (measure.SET_UP, "PAR") not in rows
    assert (measure.FIRST, "PAR") not in rows
    assert rows[measure.WARM, "PAR"].runs == 3
    for sum_, set_up, first in zip(
        observed["venv"].from_shipped(),
        observed["venv"].set_up,
        observed["venv"].first,
        strict=True,
    ):
        assert sum_.wall == set_up.wall + first.wall
        assert sum_.memory == max(set_up.memory, first.memory)


def test_the_space_that_a_second_program_adds(forms: tuple[Par, _Copied], tmp_path: Path) -> None:
    measure.observe(forms, rounds=1, warm_rounds=1)
    second = _program(tmp_path, "b.par", {"library": 3_000_000, "own": 500_000})
    figure = measure.second_figure(forms[0], "B", second)
    assert (figure.case, figure.subject, figure.number) == (measure.SECOND, "B", 0.5)


def test_a_copy_of_the_cache_leaves_no_files(forms: tuple[Par, _Copied], tmp_path: Path) -> None:
    measure.observe(forms, rounds=1, warm_rounds=1)
    copy = measure.Copy("cp -r", forms[0], tmp_path / "work")
    (figure,) = measure.copy_figures("cp -r", copy.observe(2))
    assert figure.runs == 2
    assert not list((tmp_path / "work").iterdir())


def test_a_peak_of_memory_below_that_of_the_parent_is_not_known() -> None:
    large = f"print('{EXPECTED.decode().strip()}', (b'x' * 300_000_000)[:0].decode(), sep='')"
    code = {"small": large.replace("300_000_000", "0"), "large": large}
    observed = {}
    for name, program in code.items():
        peer = Peer(name, (sys.executable, "-c", program), ENVIRONMENT)
        observed[name] = measure.Observations(first=[start(peer)], warm=[start(peer)])
    peaks = {
        figure.subject: figure.peak_mib
        for figure in measure.figures(observed, base="small")
        if figure.case == measure.WARM
    }
    assert peaks["small"] is None
    assert peaks["large"] is not None
    assert peaks["large"] > 280


def test_a_program_with_other_output_ends_the_run(tmp_path: Path) -> None:
    path = tmp_path / "bad.par"
    path.write_text("#!/bin/sh\necho nothing\n")
    path.chmod(0o755)
    with pytest.raises(StartError, match="bad"):
        measure.observe([Par("bad", path, tmp_path)], rounds=1, warm_rounds=1)


def test_a_command_that_fails_ends_the_run_with_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "bad"
    path.write_text("#!/bin/sh\necho first >&2\necho 'no such library' >&2\nexit 3\n")
    path.chmod(0o755)
    with pytest.raises(CommandError, match=r"bad` ended with status 3: no such library"):
        run([path], environment=ENVIRONMENT)
