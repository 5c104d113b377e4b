# SPDX-License-Identifier: Apache-2.0
"""The rows for people: TABLE.md, which is made of the golden and of the exceptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.conformance.exceptions import Exceptions
from tests.conformance.golden import Key
from tests.conformance.rows import CHECKS, DTYPES, Outcome, Row

FILE = Path(__file__).with_name("TABLE.md")

_HEAD = """# Operators on tpu, compared with the CPU

Made by `python -m tests.conformance.run --update`; what is said here is checked by
`golden_test.py`. One row for each operator of torch's op_db, on tpu (JAX on the CPU), strict mode.

"""

_LEGEND = """
In a cell, one sign for each check: forward, strides of its results, backward, out=, in-place.
`+` passes with all samples that were run, `x` does not, `.` is not declared or has no sample.
An empty cell: the operator does not take this dtype.

"""

_SIGNS = {True: "+", False: "x"}


def summary(rows: Iterable[Row]) -> str:
    """Return one line for each dtype and check: passed of those that have a sample."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row.counts:
            groups.setdefault((row.dtype, row.check), []).append(row)
    lines = []
    for (dtype, check), group in groups.items():
        failed = [row.outcome for row in group if not row.good]
        others = [f"{failed.count(o)} {o.value}" for o in Outcome if o in failed]
        passed = f"{dtype} {check}: {len(group) - len(failed)} of {len(group)} passed"
        lines.append(", ".join([passed, *others]))
    return "\n".join(lines)


def page(rows: Mapping[Key, Row], known: Exceptions) -> str:
    """Return the text of TABLE.md."""
    counted = [row for row in rows.values() if row.counts]
    by_op: dict[str, list[Row]] = {}
    for row in rows.values():
        by_op.setdefault(row.op, []).append(row)
    lines = [f"| operator | {' | '.join(DTYPES)} | why not |", "|---" * (len(DTYPES) + 2) + "|"]
    for op in sorted(by_op):
        cells = [_cell(rows, op, dtype) for dtype in DTYPES]
        failed = [row for row in by_op[op] if row.counts and not row.good]
        why = dict.fromkeys(known.reason(row) for row in failed)
        lines.append(f"| {op} | {' | '.join(cells)} | {_escaped('; '.join(why))} |")
    samples = f"{sum(row.samples for row in counted)} samples in all.\n\n"
    return _HEAD + samples + _totals(counted) + _LEGEND + "\n".join(lines) + "\n"


def write(rows: Mapping[Key, Row], known: Exceptions, file: Path = FILE) -> None:
    aside = file.with_name(file.name + ".part")
    aside.write_text(page(rows, known), encoding="utf-8")
    aside.replace(file)


def _totals(rows: list[Row]) -> str:
    """Return the shares that count, then all of them by dtype and check."""
    forward = [row for row in rows if row.check == "forward"]
    whole: dict[tuple[str, str], bool] = {}
    for row in rows:
        whole[row.op, row.dtype] = whole.get((row.op, row.dtype), True) and row.good
    shares = [
        ("float32, forward", [row.good for row in forward if row.dtype == "float32"]),
        ("operator x dtype, forward", [row.good for row in forward]),
        ("gradients", [row.good for row in rows if row.check == "backward"]),
        ("out= and in-place variants", [row.good for row in rows if row.check in _VARIANTS]),
        ("operator x dtype, every check passes", list(whole.values())),
        ("operator x dtype x check", [row.good for row in rows]),
    ]
    lines = ["| | passed | of | |", "|---|---|---|---|"]
    lines += [f"| {what} | {sum(good)} | {len(good)} | {_share(good)} |" for what, good in shares]
    lines += ["", f"| | {' | '.join(CHECKS)} |", "|---" * (len(CHECKS) + 1) + "|"]
    for dtype in DTYPES:
        cells = []
        for check in CHECKS:
            good = [row.good for row in rows if (row.dtype, row.check) == (dtype, check)]
            cells.append(f"{sum(good)} of {len(good)}" if good else "")
        lines.append(f"| {dtype} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _share(good: list[bool]) -> str:
    return f"{100 * sum(good) / len(good):.1f} %" if good else ""


def _cell(rows: Mapping[Key, Row], op: str, dtype: str) -> str:
    if (op, dtype, "forward") not in rows:
        return ""
    found = [rows.get((op, dtype, check)) for check in CHECKS]
    return "".join(_SIGNS[row.good] if row and row.counts else "." for row in found)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


_VARIANTS = ("out", "inplace")
