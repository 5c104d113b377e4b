# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that records outcomes in a results file, and skips tests already listed there."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.fbcode import outcomes
from tests.fbcode.outcomes import Ran
from tools.presubmit.results import Outcome

# Environment variables: the path of the results file, and whether to rerun failed tests.
FILE = "FBCODE_RESULTS"
AGAIN = "FBCODE_AGAIN"
# The environment variable that names the folder with the tests. It is set if test files in
# different subfolders may have the same name. A suite's name then contains the path of its file
# relative to this folder.
FOLDER = "FBCODE_FOLDER"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    known = outcomes.read(_file())
    again = bool(os.environ.get(AGAIN))
    remaining: list[pytest.Item] = []
    done: list[pytest.Item] = []
    for item in items:
        ran = known.get(key(item))
        if ran is None or ran.reason == outcomes.BEGUN:
            remaining.append(item)
        else:
            (remaining if again and ran.outcome is Outcome.FAILED else done).append(item)
    items[:] = remaining
    config.hook.pytest_deselected(items=done)


def key(item: pytest.Item) -> tuple[str, str]:
    """Return the key of a test in the results file."""
    return _named(item, Outcome.FAILED, "").key


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    outcomes.append(_file(), [_named(item, Outcome.FAILED, outcomes.BEGUN)])
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_REPORTS] = [*item.stash.get(_REPORTS, []), report]
    if report.when == "teardown":
        outcomes.append(_file(), [_ended(item)])
    return report


# Matches the line of a traceback that contains the error's type and message.
_ERROR = re.compile(r"[\w.]*(Error|Exception)\b")

_REPORTS = pytest.StashKey[list[pytest.TestReport]]()


def _ended(item: pytest.Item) -> Ran:
    reports = item.stash[_REPORTS]
    seconds = round(sum(report.duration for report in reports), 2)
    for report in reports:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            text = crash.message if crash else str(report.longrepr)
            return _named(item, Outcome.FAILED, _summary(text), seconds)
    for report in reports:
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            return _named(item, Outcome.SKIPPED, reason.removeprefix("Skipped: "), seconds)
    return _named(item, Outcome.PASSED, "", seconds)


def _summary(text: str) -> str:
    """Return an error's first line or, if the text quotes a rank's error, that error's line."""
    lines = text.splitlines() or [""]
    if lines[0].endswith(("exception:", "worker process:")):
        errors = [line for line in lines[1:] if _ERROR.match(line)]
        # Some errors end with a colon and no message. Prefer another error, such as the cause.
        informative = [line for line in errors if not line.rstrip().endswith(":")]
        lines = informative[-1:] or errors[-1:] or lines
    return lines[0][:300]


def _named(item: pytest.Item, outcome: Outcome, reason: str, seconds: float = 0.0) -> Ran:
    """Return the outcome of a test, with a suite name that omits the device's name.

    torch appends the device's name to the class name, and may change it later.
    """
    suite, cls = _file_name(item.path), getattr(item, "cls", None)
    if cls is not None:
        name = cls.__name__
        for suffix in ("CPU", "PRIVATEUSE1", "TPU"):
            name = name.removesuffix(suffix)
        suite += f"::{name}"
    # The device is a user property of the test, as in Bazel's test results. It is unset when the
    # test starts, so a test that terminates its process has no device.
    device = str(dict(item.user_properties).get("device", ""))
    return Ran(suite, item.name, device, outcome, reason, seconds)


def _file_name(path: Path) -> str:
    folder = os.environ.get(FOLDER)
    return path.relative_to(folder).as_posix() if folder else path.stem


def _file() -> Path:
    return Path(os.environ[FILE])
