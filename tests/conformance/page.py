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
`golden_test.py`. One row for each operator of torch's op_db, on tpu (JAX on the CPU), strict
mode; the check `fused` is the forward check in the fused mode.

"""

_LEGEND = """
In a cell, one sign for each check: forward, strides of its results, backward, out=, in-place, refused,
and fused. Refused: those of the first three samples that the CPU refuses, cast to the dtype if the
operator does not declare it, raise the same type of error here. `+` passes with every sample that was to
be run, `p` with those of them that were run, `x` does not pass, `.` is not declared or has no sample
that counts. Then how many samples were run: one number for all checks, or one for each sign but `.`, and
after `of` how many op_db has if that is more. An empty cell: no check of the operator counts for this
dtype.

Not in this table:

- float16, complex128, int32, int16, int8 and uint8: backward, out= and in-place;
- samples that the CPU refuses beyond the first three of an operator and dtype;
- the fused mode in other dtypes than float32, its backward, out= and in-place;
- the debug mode, whose checks of values `value_checks_test.py` has one by one;
- float8, uint16, uint32, uint64 and complex32.

[Random programs](../fuzz/README.md) run in every mode.

"""


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
    return _HEAD + _extent(counted) + _totals(counted) + _LEGEND + "\n".join(lines) + "\n"


def write(rows: Mapping[Key, Row], known: Exceptions, file: Path = FILE) -> None:
    aside = file.with_name(file.name + ".part")
    aside.write_text(page(rows, known), encoding="utf-8")
    aside.replace(file)


def _extent(rows: list[Row]) -> str:
    """Return how much was run: samples, and how many rows had all of op_db's."""
    refused = sum(row.samples for row in rows if row.check == "refused")
    rows = [row for row in rows if row.check != "refused"]
    taken, total = sum(row.taken for row in rows), sum(row.total for row in rows)
    whole = sum(row.whole for row in rows)
    return (
        f"{taken} samples were run, of {total} that op_db has; {whole} of {len(rows)} rows had all "
        f"of theirs.\nThe CPU accepts {sum(row.samples for row in rows)} of those that were run. "
        f"Of the first three of each\noperator and dtype it refuses {refused}.\n\n"
    )


def _totals(rows: list[Row]) -> str:
    """Return the shares that count, then all of them by dtype and check."""
    forward = [row for row in rows if row.check == "forward"]
    answered = [row for row in rows if row.check != "refused"]
    whole: dict[tuple[str, str], bool] = {}
    for row in answered:
        whole[row.op, row.dtype] = whole.get((row.op, row.dtype), True) and row.good
    shares = [
        ("float32, forward", [row.good for row in forward if row.dtype == "float32"]),
        ("operator x dtype, forward", [row.good for row in forward]),
        ("gradients", [row.good for row in rows if row.check == "backward"]),
        ("out= and in-place variants", [row.good for row in rows if row.check in _VARIANTS]),
        ("operator x dtype, every check passes", list(whole.values())),
        ("operator x dtype x check", [row.good for row in answered]),
        (
            "operator x dtype of which the CPU refuses a sample",
            [row.good for row in rows if row.check == "refused"],
        ),
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
    lines += ["", "Of these rows, so many were run with every sample of op_db's:", ""]
    lines += [f"| | {' | '.join(CHECKS)} |", "|---" * (len(CHECKS) + 1) + "|"]
    for dtype in DTYPES:
        cells = []
        for check in CHECKS:
            wholes = [row.whole for row in rows if (row.dtype, row.check) == (dtype, check)]
            cells.append(f"{sum(wholes)}" if wholes else "")
        lines.append(f"| {dtype} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _share(good: list[bool]) -> str:
    return f"{100 * sum(good) / len(good):.1f} %" if good else ""


def _cell(rows: Mapping[Key, Row], op: str, dtype: str) -> str:
    found = [rows.get((op, dtype, check)) for check in CHECKS]
    counted = [row for row in found if row and row.counts]
    if not counted:
        return ""
    counts = list(dict.fromkeys(map(_count, counted)))
    if len(counts) > 1:
        counts = [_count(row) for row in counted]
    return f"{''.join(map(_sign, found))} {' '.join(counts)}".rstrip()


def _sign(row: Row | None) -> str:
    if row is None or not row.counts:
        return "."
    return ("+" if row.whole else "p") if row.good else "x"


def _count(row: Row) -> str:
    return f"{row.taken}" if row.whole else f"{row.taken}of{row.total}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


_VARIANTS = ("out", "inplace")
