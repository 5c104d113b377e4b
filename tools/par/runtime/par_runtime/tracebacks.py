# SPDX-License-Identifier: Apache-2.0
"""sys.excepthook of a PAR: the interpreter's own reads source lines from the disk only."""

from __future__ import annotations

import sys
import traceback
from types import TracebackType

_IMPORTER = "<frozen _par_boot>"


def print_exception(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Prints what Python prints for the same program on disk: no frames of the importer."""
    report = traceback.TracebackException(kind, error, trace)
    _leave_out_importer(report)
    print("".join(report.format()), end="", file=sys.stderr)


def _leave_out_importer(report: traceback.TracebackException | None) -> None:
    while report is not None:
        report.stack[:] = [frame for frame in report.stack if frame.filename != _IMPORTER]
        for inner in report.exceptions or ():
            _leave_out_importer(inner)
        _leave_out_importer(report.__context__)
        report = report.__cause__
