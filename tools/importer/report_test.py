# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
import os
import pty

import pytest

from tools.importer import report as report_module
from tools.importer.report import PlainReport, TerminalReport, make_report


def test_json_is_one_document_and_nothing_else() -> None:
    out, err = io.StringIO(), io.StringIO()
    report = make_report(as_json=True, out=out, err=err)
    report.say("reading")
    with report.progress("fetch", 2) as step:
        step.advance()
    report.result({"outcome": "clean"})
    assert json.loads(out.getvalue()) == {"outcome": "clean"}
    assert err.getvalue() == ""
    with pytest.raises(RuntimeError, match="reports one result"):
        report.result({})


def test_lines_go_to_standard_output_and_progress_does_not() -> None:
    out, err = io.StringIO(), io.StringIO()
    report = make_report(as_json=False, out=out, err=err)
    report.say("a [bold] path")
    with report.progress("quick"):
        pass
    report.result({"for": "machines"})
    assert isinstance(report, PlainReport)
    assert out.getvalue() == "a [bold] path\n"
    assert err.getvalue() == ""


def test_a_slow_step_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_module, "_QUIET_SECONDS", 0.0)
    monkeypatch.setattr(report_module, "_REPEAT_SECONDS", 0.0)
    err = io.StringIO()
    with PlainReport(io.StringIO(), err).progress("fetch", 3) as step:
        step.advance(2)
    assert "fetch ... 2/3\n" in err.getvalue()


def test_a_terminal_shows_others_text_as_it_is_and_takes_steps_within_steps() -> None:
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as terminal, os.fdopen(master, "rb", buffering=0) as screen:
        report = make_report(as_json=False, out=terminal, err=terminal)
        with (
            report.progress("outer [red]", 2) as outer,
            report.progress("inner") as inner,
        ):
            outer.advance()
            inner.advance()
            report.say("[bold]torch/" + "long" * 40 + "/:smile:.py")
        terminal.write("end of output")
        terminal.flush()
        text = b""
        while not text.endswith(b"end of output"):  # a read may return only part of the output
            text += screen.read(65536)
    assert isinstance(report, TerminalReport)
    assert b"[bold]torch/" + b"long" * 40 + b"/:smile:.py" in text
    assert b"outer [red]" in text
