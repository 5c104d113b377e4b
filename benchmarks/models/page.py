# SPDX-License-Identifier: Apache-2.0
"""Write TABLE.md and its charts from the newest results of this benchmark.

python3 -m benchmarks.models.page            write them
python3 -m benchmarks.models.page --check    fail if a file is out of date; write nothing
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks import results
from benchmarks.models import bars
from benchmarks.models.model import BASE, KINDS, PROGRAMS
from benchmarks.models.row import (
    BENCHMARK,
    TITLES,
    Row,
    Verdict,
    common,
    geometric_mean,
    rows_of,
)

COMMAND = "python3 -m benchmarks.models.page"
_ROOM = Path(__file__).parent
_COMPARED = tuple(program for program in PROGRAMS if program != BASE)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    changed = outdated(newest(_ROOM.parent / "results"), _ROOM)
    for name, text in changed.items():
        if not options.check:
            (_ROOM / name).write_text(text, encoding="utf-8")
    if options.check and changed:
        print(f"models: {', '.join(changed)} differ from the results. Run {COMMAND}")
        return 1
    return 0


def newest(directory: Path) -> results.Results:
    """Return the newest run. Raises ResultsError if there is none."""
    runs = [results.read(path) for path in sorted(directory.glob(f"{BENCHMARK}-*.json"))]
    if not runs:
        raise results.ResultsError(f"no {BENCHMARK}-*.json in {directory.name}. Publish a run")
    return max(runs, key=lambda run: run.date)


def outdated(run: results.Results, room: Path) -> dict[str, str]:
    """Map the name of each file that differs from the results to its new text."""
    return {
        name: text
        for name, text in files(run).items()
        if not (room / name).exists() or (room / name).read_text(encoding="utf-8") != text
    }


def files(run: results.Results) -> dict[str, str]:
    """Return the texts of the page and its charts, keyed by file name."""
    rows = rows_of(run)
    kinds = [kind for kind in KINDS if any(row.kind == kind for row in rows)]
    pictures = {"means.svg": _means(rows, kinds)}
    pictures |= {f"{kind}.svg": _models(rows, kind) for kind in kinds}
    return {"TABLE.md": table(run, rows, kinds), **pictures}


def table(run: results.Results, rows: Sequence[Row], kinds: Sequence[str]) -> str:
    parts = [
        f"<!-- Written by `{COMMAND}` from benchmarks/results. -->\n\n# Models\n\n"
        "CPU time of a run, relative to torch on the CPU, eager: below 1 is faster. "
        f"The [README](README.md) explains the columns.\n\n**{run.date}**, commit "
        f"`{run.commit}`: {run.machine.words()}.{' ' + run.note if run.note else ''}\n\n"
        "![geometric means](means.svg)\n",
        "## Geometric means\n\nOf the models that passed in the program, and of those that passed "
        "in all programs of their row.\n\n" + _means_table(rows, kinds),
    ]
    for kind in kinds:
        parts.append(
            f"## {TITLES[kind].capitalize()}\n\n![{TITLES[kind]}]({kind}.svg)\n\n"
            + _ratio_table(rows, kind)
        )
    parts.append("## Rows without times\n\n" + _failure_table(rows))
    parts.append("## All rows\n\n" + _row_table(rows))
    return "\n".join(parts)


def _means_table(rows: Sequence[Row], kinds: Sequence[str]) -> str:
    lines = []
    for kind in kinds:
        models = {row.model for row in rows if row.kind == kind}
        own = [_passed(rows, kind, program) for program in _COMPARED]
        lines.append(
            [TITLES[kind], f"passed, of {len(models)}"]
            + [f"{geometric_mean(each):.2f} ({len(each)})" if each else "" for each in own]
        )
        shared = common(rows, kind)
        number = len(next(iter(shared.values()), []))
        if number:
            lines.append(
                [TITLES[kind], f"the {number} that passed everywhere"]
                + [
                    f"{geometric_mean(shared[each]):.2f}" if each in shared else ""
                    for each in _COMPARED
                ]
            )
    return _markdown(("", "models", *_COMPARED), lines)


def _ratio_table(rows: Sequence[Row], kind: str) -> str:
    by_key = {(row.model, row.program): row for row in rows if row.kind == kind}
    lines = []
    for model in dict.fromkeys(model for model, _ in by_key):
        base = by_key.get((model, BASE))
        milliseconds = base.cpu_seconds if base else None
        cells = [_cell(by_key.get((model, program))) for program in _COMPARED]
        lines.append([model, "" if milliseconds is None else f"{milliseconds * 1e3:.1f}", *cells])
    return _markdown(("model", "torch, CPU ms", *_COMPARED), lines)


def _failure_table(rows: Sequence[Row]) -> str:
    failed = [row for row in rows if row.verdict != Verdict.PASSED]
    if not failed:
        return "None.\n"
    lines = [[str(row.key), row.verdict, _code(row.cause)] for row in failed]
    return _markdown(("row", "verdict", "cause"), lines, numbers_from=3)


def _row_table(rows: Sequence[Row]) -> str:
    lines = [
        [
            str(row.key),
            _number(row.ratio, "{:.2f}"),
            _number(row.cpu_seconds, "{:.1f}", 1e3),
            _number(row.wall_seconds, "{:.1f}", 1e3),
            _number(row.start_cpu, "{:.1f}"),
            _number(row.start_wall, "{:.1f}"),
            _number(row.load, "{:.1f}"),
        ]
        for row in rows
        if row.verdict == Verdict.PASSED
    ]
    heads = ("row", "CPU ratio", "CPU ms", "wall ms", "start CPU s", "start wall s", "load")
    return _markdown(heads, lines, numbers_from=1)


def _means(rows: Sequence[Row], kinds: Sequence[str]) -> str:
    groups: dict[str, dict[str, float | str]] = {}
    for kind in kinds:
        own = {each: _passed(rows, kind, each) for each in _COMPARED}
        groups[TITLES[kind]] = {k: geometric_mean(v) if v else "" for k, v in own.items()}
    return bars.svg("CPU time relative to torch, eager: geometric means", groups, _COMPARED)


def _models(rows: Sequence[Row], kind: str) -> str:
    groups: dict[str, dict[str, float | str]] = {}
    for row in rows:
        if row.kind == kind and row.program != BASE:
            value = row.verdict if row.ratio is None else row.ratio
            groups.setdefault(row.model, {})[row.program] = value
    title = f"CPU time relative to torch, eager: {TITLES[kind]}"
    return bars.svg(title, groups, _COMPARED)


def _passed(rows: Iterable[Row], kind: str, program: str) -> list[float]:
    mine = (row for row in rows if (row.kind, row.program) == (kind, program))
    return [row.ratio for row in mine if row.ratio is not None]


def _cell(row: Row | None) -> str:
    if row is None:
        return "not run"
    return row.verdict if row.ratio is None else f"{row.ratio:.2f}"


def _number(value: float | None, form: str, scale: float = 1) -> str:
    return "" if value is None else form.format(value * scale)


def _code(text: str) -> str:
    return "`" + text.replace("`", "'").replace("|", "\\|") + "`"


def _markdown(
    heads: Sequence[str], lines: Iterable[Sequence[str]], *, numbers_from: int = 2
) -> str:
    def written() -> Iterator[str]:
        yield _line(heads)
        rules = ["---"] * numbers_from + ["---:"] * (len(heads) - numbers_from)
        yield "|" + "|".join(rules) + "|"
        yield from map(_line, lines)

    return "\n".join(written()) + "\n"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
