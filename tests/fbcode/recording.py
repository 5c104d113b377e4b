# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: what becomes of tests goes to a file, and what is there is not run again."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.fbcode import outcomes
from tests.fbcode.outcomes import Ran
from tools.presubmit.results import Outcome

# The file; and, where it is not empty, that what failed is run once more.
FILE = "FBCODE_RESULTS"
AGAIN = "FBCODE_AGAIN"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    known = outcomes.read(_file())
    again = bool(os.environ.get(AGAIN))
    left: list[pytest.Item] = []
    done: list[pytest.Item] = []
    for item in items:
        ran = known.get(_named(item, Outcome.FAILED, "").key)
        if ran is None or ran.reason == outcomes.BEGUN:
            left.append(item)
        else:
            (left if again and ran.outcome is Outcome.FAILED else done).append(item)
    items[:] = left
    config.hook.pytest_deselected(items=done)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    outcomes.append(_file(), [_named(item, Outcome.FAILED, outcomes.BEGUN)])
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    found = item.stash.get(_REPORTS, [])
    item.stash[_REPORTS] = [*found, report]
    if report.when == "teardown":
        outcomes.append(_file(), [_ended(item)])
    return report


_REPORTS = pytest.StashKey[list[pytest.TestReport]]()


def _ended(item: pytest.Item) -> Ran:
    reports = item.stash[_REPORTS]
    seconds = round(sum(report.duration for report in reports), 2)
    for report in reports:
        if report.failed:
            words = getattr(report.longrepr, "reprcrash", None)
            said = words.message if words else str(report.longrepr)
            return _named(item, Outcome.FAILED, (said.splitlines() or [""])[0][:300], seconds)
    for report in reports:
        if report.skipped:
            said = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            return _named(item, Outcome.SKIPPED, said.removeprefix("Skipped: "), seconds)
    return _named(item, Outcome.PASSED, "", seconds)


def _named(item: pytest.Item, outcome: Outcome, reason: str, seconds: float = 0.0) -> Ran:
    """Return the row of a test. torch renames its tpu classes when it sets them up."""
    suite, cls = item.path.stem, getattr(item, "cls", None)
    if cls is not None:
        name = cls.__name__
        for suffix in ("CPU", "PRIVATEUSE1", "TPU"):
            name = name.removesuffix(suffix)
        suite += f"::{name}"
    # Where the device stands in Bazel's results too; a test that ended its process has none yet.
    device = str(dict(item.user_properties).get("device", ""))
    return Ran(suite, item.name, device, outcome, reason, seconds)


def _file() -> Path:
    return Path(os.environ[FILE])
