# SPDX-License-Identifier: Apache-2.0
"""Write FIGURES.md and the table in README.md, from the results in benchmarks/results.

python3 -m benchmarks.figures            write both
python3 -m benchmarks.figures --check    fail if a file is out of date; write nothing
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks import results
from benchmarks.results import Figure, Results

COMMAND = "python3 -m benchmarks.figures"
BEGIN = f"<!-- figures: begin. Written by `{COMMAND}` -->"
END = "<!-- figures: end -->"
_FIGURES = "benchmarks/FIGURES.md"
_README = "README.md"


@dataclasses.dataclass(frozen=True)
class Section:
    """A section of FIGURES.md. `how` explains, in Markdown, how to run the benchmark."""

    title: str
    how: str


SECTIONS = {
    "par_startup": Section("Starting a program", "[par_startup](par_startup/README.md)"),
    "programs": Section(
        "Programs for CPUs and for CUDA: sizes and starts", "[programs](programs/README.md)"
    ),
    "tpu_eager": Section("The tpu device on a CPU", "[tpu_eager](tpu_eager/README.md)"),
    "models": Section(
        "Models of libraries on the tpu device",
        "[models](models/README.md); [TABLE.md](models/TABLE.md) has each model",
    ),
    "size_streams": Section(
        "Sizes that change, on the tpu device", "[size_streams](size_streams/README.md)"
    ),
    "collectives": Section(
        "torch.distributed on the device", "[collectives](collectives/README.md)"
    ),
    "conformance": Section(
        "The tpu device and torch's own tests",
        "[conformance](../tests/conformance/README.md), [upstream](../tests/upstream/README.md), "
        "[files](../tests/upstream/files/README.md)",
    ),
    "serving": Section("Serving a model", "[serving](serving/README.md)"),
    "images": Section("Container images", "[images](images/README.md)"),
    "google3": Section("The libraries", "[google3](google3/README.md)"),
    "importer": Section("Moving patches to another release", "[importer](importer/README.md)"),
    "packages": Section("Packages from PyPI", "[packages](packages/README.md)"),
    "build": Section("Setting up, building, testing", "by hand: `time` and `ls -l`"),
    "static_rebuild": Section(
        "Building the static program again", "[static_rebuild](static_rebuild/README.md)"
    ),
    "static_training": Section(
        "Training with the static build", "[static_training](static_training/README.md)"
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the table in README.md.

    `what`, `baseline` and `how` are cells of the row. The other fields select the figure to show.
    """

    what: str
    baseline: str
    how: str
    benchmark: str
    cases: tuple[str, ...]
    subject: str
    peer: str
    threads: int | None = None


ROWS = (
    Row(
        what="CPU time of a warm start of `import torch`",
        baseline="1 in a virtual environment",
        how="[par_startup](benchmarks/par_startup/README.md)",
        benchmark="par_startup",
        cases=("Warm start",),
        subject="PAR",
        peer="venv",
    ),
    Row(
        what="CPU time of a first start, nothing unpacked yet",
        baseline="1 with pex",
        how="[par_startup](benchmarks/par_startup/README.md)",
        benchmark="par_startup",
        cases=("First start, empty cache",),
        subject="PAR",
        peer="pex",
    ),
    Row(
        what="CPU time of a GPT training step, `tpu` on a CPU, one thread",
        baseline="1 with torch, eager",
        how="[tpu_eager](benchmarks/tpu_eager/README.md)",
        benchmark="tpu_eager",
        cases=("GPT, 4 layers of 256, 8x128, a step",),
        subject="fused",
        peer="torch",
        threads=1,
    ),
    Row(
        what="Operators of torch's op_db that agree with the CPU, float32 forward",
        baseline="all of them",
        how="[conformance](tests/conformance/README.md)",
        benchmark="conformance",
        cases=("Operators of op_db, float32 forward",),
        subject="tpu",
        peer="CPU",
    ),
    Row(
        what="CPU time of carrying 50 patches to a release of 15,000 files",
        baseline="1 with `git am -3`",
        how="[importer](benchmarks/importer/README.md)",
        benchmark="importer",
        cases=("The series on the next release",),
        subject="carry",
        peer="git am -3",
    ),
    Row(
        what="CPU time of `torch.save` of 1 GiB through gfile",
        baseline="1 with `open()`",
        how="[google3](benchmarks/google3/README.md)",
        benchmark="google3",
        cases=("torch.save, beside open(), fsync, rename", "torch.save of 1 GiB"),
        subject="torch_google",
        peer="without it",
    ),
)

# The columns of a table. Each entry contains the name of a field of Figure, a heading, and the
# format of the cells. Empty columns are omitted.
_RATIO, _COUNT = "{:.2f}", "{:,.10g}"
_COLUMNS = (
    ("case", "case", "{}"),
    ("subject", "measured", "{}"),
    ("threads", "threads", "{}"),
    ("number", "number", _COUNT),
    ("total", "of", _COUNT),
    ("unit", "unit", "{}"),
    ("cpu_ratio", "CPU ratio", _RATIO),
    ("wall_ratio", "wall ratio", _RATIO),
    ("peer", "ratio to", "{}"),
    ("cpu_seconds", "CPU s", "{:.3g}"),
    ("wall_seconds", "wall s", "{:.4g}"),
    ("peak_mib", "peak MiB", "{:.0f}"),
    ("runs", "runs", "{}"),
    ("note", "note", "{}"),
)


class MissingFigureError(Exception):
    """No result matches a row of README.md's table, or README.md lacks the table's markers."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args(arguments)
    root = Path(__file__).resolve().parents[1]
    try:
        changes = differences(root)
    except (results.ResultsError, MissingFigureError) as error:
        print(f"figures: {error}", file=sys.stderr)
        return 1
    for path, (text, _) in changes.items():
        if not options.check:
            (root / path).write_text(text, encoding="utf-8")
    if options.check and changes:
        print("".join(difference for _, difference in changes.values()), end="")
        print(f"figures: {', '.join(changes)} differ from the results. Run {COMMAND}")
        return 1
    return 0


def differences(root: Path) -> dict[str, tuple[str, str]]:
    """Map each file that is out of date to its new text and a diff."""
    runs = load(root / "benchmarks/results")
    texts = {
        _FIGURES: figures_page(runs),
        _README: with_table((root / _README).read_text(encoding="utf-8"), readme_table(runs)),
    }
    changed = {}
    for path, text in texts.items():
        file = root / path
        old = file.read_text(encoding="utf-8") if file.exists() else ""
        lines = difflib.unified_diff(
            old.splitlines(keepends=True), text.splitlines(keepends=True), path, path
        )
        if old != text:
            changed[path] = text, "".join(lines)
    return changed


def load(directory: Path) -> list[Results]:
    """Return all runs, newest first. Runs from the same day are sorted by file name, in reverse."""
    runs = [results.read(path) for path in sorted(directory.glob("*.json"), reverse=True)]
    for run in runs:
        if run.benchmark not in SECTIONS:
            raise results.ResultsError(
                f"unknown benchmark {run.benchmark!r}. Add it to SECTIONS of benchmarks/figures.py"
            )
    return sorted(runs, key=lambda run: run.date, reverse=True)


def figures_page(runs: Sequence[Results]) -> str:
    """Return the text of FIGURES.md: a section for each benchmark, with a table for each run."""
    parts = [
        f"<!-- Written by `{COMMAND}` from benchmarks/results. -->\n\n# Figures\n\n"
        "A cell has one number. A ratio below 1 is in favor of the measured program. Seconds are "
        "medians; a ratio is\nthe median of the ratios within each round. An empty cell was not "
        "measured or not recorded.\n"
    ]
    for name, section in SECTIONS.items():
        mine = [run for run in runs if run.benchmark == name]
        if mine:
            parts.append(f"## {section.title}\n\nHow to measure: {section.how}.\n")
            parts += [_run(run) for run in mine]
    return "\n".join(parts)


def _run(run: Results) -> str:
    note = f" {run.note}" if run.note else ""
    heading = f"**{run.date}**, commit `{run.commit}`: {run.machine.words()}.{note}\n"
    return f"{heading}\n{_table(run.figures)}"


def _table(figures: Iterable[Figure]) -> str:
    rows = [dataclasses.asdict(figure) for figure in figures]
    columns = [
        (key, title, form)
        for key, title, form in _COLUMNS
        if any(row[key] is not None for row in rows)
    ]
    lines = [_line(title for _, title, _ in columns)]
    lines.append("|" + "".join(_rule(form) for _, _, form in columns))
    lines += [
        _line("" if row[key] is None else form.format(row[key]) for key, _, form in columns)
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def _rule(form: str) -> str:
    return "---|" if form == "{}" else "---:|"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def readme_table(runs: Sequence[Results]) -> str:
    """Return the table for README.md, with the newest figure in each row."""
    lines = [_line(("what", "ours", "baseline", "how to measure")), "|---|---|---|---|"]
    lines += [_line((row.what, _figure_cell(row, runs), row.baseline, row.how)) for row in ROWS]
    return "\n".join(lines) + "\n"


def _figure_cell(row: Row, runs: Sequence[Results]) -> str:
    for figure in _matching(row, runs):
        if figure.cpu_ratio is not None:
            return _RATIO.format(figure.cpu_ratio)
        if figure.number is not None and figure.total is not None:
            return f"{figure.number:,.10g} of {figure.total:,.10g}"
    raise MissingFigureError(
        f"README's row {row.what!r}: no result of {row.benchmark} has {row.subject!r} against "
        f"{row.peer!r} in the case {row.cases[0]!r}. Add one to benchmarks/results, or change ROWS of benchmarks/figures.py"
    )


def _matching(row: Row, runs: Sequence[Results]) -> Iterator[Figure]:
    for run in runs:
        if run.benchmark == row.benchmark:
            for figure in run.figures:
                asked = (row.subject, row.peer, row.threads)
                if figure.case in row.cases and asked == (
                    figure.subject,
                    figure.peer,
                    figure.threads,
                ):
                    yield figure


def with_table(text: str, table: str) -> str:
    """Return `text` with `table` between its BEGIN and END markers."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise MissingFigureError(f"README.md lacks a line {BEGIN!r} or {END!r}. Add both")
    return f"{before}{BEGIN}\n\n{table}\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
