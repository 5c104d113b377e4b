# SPDX-License-Identifier: Apache-2.0
"""Test that FIGURES.md and README.md's table match the results."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from benchmarks import figures, results
from benchmarks.results import Figure, Machine, Results

_ROOT = Path(__file__).resolve().parents[1]


def _run(date: str, *rows: Figure, benchmark: str = "par_startup") -> Results:
    return Results(
        benchmark=benchmark,
        date=date,
        commit="0123abcd",
        machine=Machine(2, 24, "Debian 12"),
        figures=rows,
    )


def _enough_for_readme() -> list[Results]:
    rows: dict[str, list[Figure]] = {}
    for row in figures.ROWS:
        figure = Figure(
            case=row.cases[0],
            subject=row.subject,
            peer=row.peer,
            threads=row.threads,
            cpu_ratio=0.25,
        )
        rows.setdefault(row.benchmark, []).append(figure)
    return [_run("2026-01-01", *many, benchmark=name) for name, many in rows.items()]


def test_the_published_tables_are_up_to_date() -> None:
    changed = figures.differences(_ROOT)
    text = "".join(difference for _, difference in changed.values())
    assert not changed, f"{text}\nRun {figures.COMMAND}"


def test_readme_shows_the_newest_figure() -> None:
    older = _enough_for_readme()
    first = older[0].figures[0]
    newer = dataclasses.replace(older[0], date="2026-02-01")
    against_another = dataclasses.replace(first, peer="another", cpu_ratio=0.75)
    newest = dataclasses.replace(first, cpu_ratio=0.5)
    newer = dataclasses.replace(newer, figures=(against_another, newest))
    lines = figures.readme_table([newer, *older]).splitlines()
    assert len(lines) == 2 + len(figures.ROWS)
    assert " | 0.50 | " in lines[2]
    assert all(" | 0.25 | " in line for line in lines[3:])


def test_a_row_without_a_figure_is_named() -> None:
    with pytest.raises(figures.MissingFigureError, match=r"no result of \w+ has .* Add one to"):
        figures.readme_table([])


def test_a_cell_has_one_number_and_an_empty_column_is_left_out() -> None:
    page = figures.figures_page(
        [
            _run(
                "2026-01-01",
                Figure(case="a", subject="x", peer="venv", cpu_ratio=0.5, runs=7),
                Figure(case="a|b", subject="y", number=10205, total=10217, unit="cases"),
            )
        ]
    )
    assert "**2026-01-01**, commit `0123abcd`: 2 cores, 24 GB, Debian 12.\n" in page
    assert "| case | measured | number | of | unit | CPU ratio | ratio to | runs |" in page
    assert "| a | x |  |  |  | 0.50 | venv | 7 |" in page
    assert "| a\\|b | y | 10,205 | 10,217 | cases |  |  |  |" in page


def test_a_benchmark_without_a_section_is_named(tmp_path: Path) -> None:
    results.save(tmp_path / "a.json", _run("2026-01-01", benchmark="new"))
    with pytest.raises(results.ResultsError, match="unknown benchmark 'new'. Add it to SECTIONS"):
        figures.load(tmp_path)


def test_the_command_writes_what_the_check_asks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "benchmarks/results"
    directory.mkdir(parents=True)
    for run in _enough_for_readme():
        results.save(directory / f"{run.benchmark}.json", run)
    readme = tmp_path / "README.md"
    readme.write_text(f"Before.\n{figures.BEGIN}\nold\n{figures.END}\nAfter.\n")
    monkeypatch.setattr(figures, "__file__", str(tmp_path / "benchmarks/figures.py"))
    assert figures.main(["--check"]) == 1
    assert f"Run {figures.COMMAND}" in capsys.readouterr().out
    assert figures.main([]) == 0
    assert figures.main(["--check"]) == 0
    assert readme.read_text().startswith(f"Before.\n{figures.BEGIN}\n\n| what | ours |")
    assert readme.read_text().endswith(f"\n{figures.END}\nAfter.\n")
