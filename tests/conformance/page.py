# SPDX-License-Identifier: Apache-2.0
"""Generate TABLE.md from the golden files and the exceptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.conformance.exceptions import Exceptions
from tests.conformance.golden import Key
from tests.conformance.rows import CHECKS, DTYPES, Outcome, Row

FILE = Path(__file__).with_name("TABLE.md")

_HEAD = """# Operators on tpu, compared with the CPU

Written by `python -m tests.conformance.run --update` and checked by `golden_test.py`. One row for
each operator of torch's op_db, on tpu (JAX on the CPU) in strict mode. The check `fused`
repeats the forward check in fused mode. The check `permuted` repeats it with tensors whose dimensions have
another order in memory.

"""

_LEGEND = """
A cell has one sign for each check: forward, strides of its results, backward, out=, in-place, refused,
fused and permuted. `+`: every sample was run and passes. `p`: only some samples were run, and all of them
pass. `x`: a sample fails. `.`: op_db does not declare the check, or no sample counts. The numbers after the
signs tell how many samples were run: one number for all checks, or one for each sign except `.`. If op_db has
more samples, their number follows `of`. A cell is empty if no check has a sample that counts. A sample counts
if the CPU accepts it; in the check `refused`, if the CPU refuses it.

The check `refused` takes every sample, cast to the dtype if the operator does not declare it.
If the CPU refuses a sample, tpu must raise the same type of error.

Not in this table:

- float16, complex128, int32, int16, int8 and uint8: backward, out= and in-place;
- the fused mode in dtypes other than float32, and its backward, out= and in-place;
- the debug mode, whose checks of values `value_checks_test.py` tests;
- float8, uint16, uint32, uint64 and complex32.

[Random programs](../fuzz/README.md) run in every mode.

"""


def summary(rows: Iterable[Row]) -> str:
    """Return one line per dtype and check, such as `int64 forward: 1 of 1 passed`."""
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
    lines = [
        f"| operator | {' | '.join(DTYPES)} | reason for failures |",
        "|---" * (len(DTYPES) + 2) + "|",
    ]
    for op in sorted(by_op):
        cells = [_cell(rows, op, dtype) for dtype in DTYPES]
        failed = [row for row in by_op[op] if row.counts and not row.good]
        why = dict.fromkeys(known.reason(row) for row in failed)
        lines.append(f"| {op} | {' | '.join(cells)} | {_escaped('; '.join(why))} |")
    return _HEAD + _extent(counted) + _totals(counted) + _LEGEND + "\n".join(lines) + "\n"


def write(rows: Mapping[Key, Row], known: Exceptions, file: Path = FILE) -> None:
    temporary = file.with_name(file.name + ".part")
    temporary.write_text(page(rows, known), encoding="utf-8")
    temporary.replace(file)


def _extent(rows: list[Row]) -> str:
    """Return a paragraph on coverage: how many samples ran, and how many rows are complete."""
    refused = sum(row.samples for row in rows if row.check == "refused")
    rows = [row for row in rows if row.check != "refused"]
    taken, total = sum(row.taken for row in rows), sum(row.total for row in rows)
    complete = sum(row.whole for row in rows)
    return (
        f"{taken} of op_db's {total} samples were run. All samples were run for {complete} of the "
        f"{len(rows)}\ncombinations of operator, dtype and check. The CPU accepts "
        f"{sum(row.samples for row in rows)} of the samples.\n"
        f"In the check `refused`, the CPU refuses {refused} samples.\n\n"
    )


def _totals(rows: list[Row]) -> str:
    """Return a table of the main percentages, and tables of the counts by dtype and check."""
    forward = [row for row in rows if row.check == "forward"]
    accepted = [row for row in rows if row.check != "refused"]
    passes: dict[tuple[str, str], bool] = {}
    for row in accepted:
        passes[row.op, row.dtype] = passes.get((row.op, row.dtype), True) and row.good
    shares = [
        ("float32, forward", [row.good for row in forward if row.dtype == "float32"]),
        ("operator x dtype, forward", [row.good for row in forward]),
        ("gradients", [row.good for row in rows if row.check == "backward"]),
        ("out= and in-place variants", [row.good for row in rows if row.check in _VARIANTS]),
        ("operator x dtype, every check passes", list(passes.values())),
        ("operator x dtype x check", [row.good for row in accepted]),
        (
            "operator x dtype with a sample that the CPU refuses",
            [row.good for row in rows if row.check == "refused"],
        ),
    ]
    lines = ["| | passed | of | |", "|---|---|---|---|"]
    lines += [f"| {name} | {sum(good)} | {len(good)} | {_share(good)} |" for name, good in shares]
    lines += ["", f"| | {' | '.join(CHECKS)} |", "|---" * (len(CHECKS) + 1) + "|"]
    for dtype in DTYPES:
        cells = []
        for check in CHECKS:
            good = [row.good for row in rows if (row.dtype, row.check) == (dtype, check)]
            cells.append(f"{sum(good)} of {len(good)}" if good else "")
        lines.append(f"| {dtype} | {' | '.join(cells)} |")
    lines += ["", "Operators for which all of op_db's samples were run:", ""]
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
    by_check = [rows.get((op, dtype, check)) for check in CHECKS]
    counted = [row for row in by_check if row and row.counts]
    if not counted:
        return ""
    counts = list(dict.fromkeys(map(_count, counted)))
    if len(counts) > 1:
        counts = [_count(row) for row in counted]
    return f"{''.join(map(_sign, by_check))} {' '.join(counts)}".rstrip()


def _sign(row: Row | None) -> str:
    if row is None or not row.counts:
        return "."
    return ("+" if row.whole else "p") if row.good else "x"


def _count(row: Row) -> str:
    return f"{row.taken}" if row.whole else f"{row.taken}of{row.total}"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


_VARIANTS = ("out", "inplace")
