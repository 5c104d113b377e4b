# SPDX-License-Identifier: Apache-2.0
"""Outcomes for people and for programs: lines, a page in Markdown, a file in JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.exceptions import Exceptions
from tests.conformance.trial import Outcome, Trial


def line(trial: Trial) -> str:
    counts = f"{trial.passed}/{trial.samples}"
    return f"{trial.op} {trial.dtype} {trial.outcome.value} {counts} {trial.message}".rstrip()


def summary(trials: Sequence[Trial]) -> str:
    """Return one line for each dtype: passed of those that have a sample."""
    lines = []
    for dtype in dict.fromkeys(trial.dtype for trial in trials):
        counts = Counter(t.outcome for t in trials if t.dtype == dtype)
        counted = sum(counts.values()) - counts[Outcome.EMPTY]
        others = [f"{n} {o.value}" for o, n in counts.items() if o is not Outcome.PASSED]
        passed = f"{dtype}: {counts[Outcome.PASSED]} of {counted} passed"
        lines.append(", ".join([passed, *sorted(others)]))
    return "\n".join(lines)


def write_json(path: Path, trials: Sequence[Trial]) -> None:
    rows = [
        {
            "op": t.op,
            "dtype": t.dtype,
            "outcome": t.outcome.value,
            "samples": t.samples,
            "passed": t.passed,
            "message": t.message,
        }
        for t in sorted(trials, key=lambda t: (t.op, t.dtype))
    ]
    _replace(path, json.dumps(rows, indent=1) + "\n")


def write_page(path: Path, trials: Sequence[Trial], known: Exceptions) -> None:
    """Write a table with one row for each operator, one column for each dtype."""
    _replace(path, page(trials, known))


def page(trials: Sequence[Trial], known: Exceptions) -> str:
    dtypes = list(dict.fromkeys(t.dtype for t in trials))
    found = {(t.op, t.dtype): t for t in trials}
    lines = ["# Operators on tpu", "", *[f"- {row}" for row in summary(trials).splitlines()], ""]
    lines += [f"| operator | {' | '.join(dtypes)} | why not |", "|---" * (len(dtypes) + 2) + "|"]
    for op in sorted({t.op for t in trials}):
        row = [found.get((op, dtype)) for dtype in dtypes]
        cells = ["" if t is None else _cell(t) for t in row]
        failed = [t for t in row if t and t.outcome not in (Outcome.PASSED, Outcome.EMPTY)]
        why = dict.fromkeys(known.reason(t) or t.message for t in failed)
        lines.append(f"| {op} | {' | '.join(cells)} | {_escaped('; '.join(why))} |")
    return "\n".join(lines) + "\n"


def _cell(trial: Trial) -> str:
    if trial.outcome is Outcome.EMPTY:
        return "no sample"
    if trial.outcome is Outcome.PASSED:
        return "yes"
    return f"{trial.passed}/{trial.samples}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _replace(path: Path, text: str) -> None:
    aside = path.with_name(path.name + ".part")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)
