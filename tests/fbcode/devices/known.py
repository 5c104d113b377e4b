# SPDX-License-Identifier: Apache-2.0
"""Report known failures as skips. known.json, which is written by hand, lists them."""

from __future__ import annotations

import fnmatch
import functools
import json
import unittest
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.testing._internal.common_device_type import instantiate_device_type_tests

FILE = Path(__file__).with_name("known.json")


@dataclass(frozen=True)
class Entry:
    """A known failure. `tests` is a pattern for names such as `TestClassDEVICE.test_name`.

    DEVICE is `CPU` on the CPU. On tpu, it is `PRIVATEUSE1` or `TPU`, depending on which tests ran
    before, so a pattern for tpu must have `*` instead.
    """

    tests: str
    reason: str


def instantiate(suite: type, scope: MutableMapping[str, Any]) -> None:
    """Instantiate a suite for every device, and report known failures as skips with their reasons.

    A test with a known failure still runs. If it passes, it is reported as failed, and its entry
    must be removed.
    """
    name, entries = suite.__name__, load()
    instantiate_device_type_tests(suite, scope)
    for class_name, cls in list(scope.items()):
        if (
            class_name.startswith(name)
            and isinstance(cls, type)
            and issubclass(cls, unittest.TestCase)
        ):
            apply(cls, entries)


def apply(cls: type, entries: Sequence[Entry]) -> None:
    """Report failures as skips for those tests of a class that have an entry."""
    for test in unittest.defaultTestLoader.getTestCaseNames(cls):
        for entry in entries:
            if fnmatch.fnmatchcase(f"{cls.__name__}.{test}", entry.tests):
                setattr(cls, test, _expected(getattr(cls, test), entry))
                break


def load(path: Path = FILE) -> list[Entry]:
    """Read `path`. Raises a ValueError that names the first entry without tests or a reason."""
    entries = []
    for number, row in enumerate(json.loads(path.read_text(encoding="utf-8"))):
        if set(row) != {"tests", "reason"} or not row["reason"]:
            raise ValueError(f"{path}: entry {number}: expected tests and reason, found {row}")
        entries.append(Entry(**row))
    return entries


def _expected(test: Callable[..., Any], entry: Entry) -> Callable[..., Any]:
    @functools.wraps(test)
    def run(self: unittest.TestCase) -> None:
        try:
            test(self)
        except unittest.SkipTest:
            raise
        except Exception as error:
            raise unittest.SkipTest(f"known: {entry.reason}") from error
        raise AssertionError(f"{self.id()} passes. Remove '{entry.tests}' from {FILE.name}")

    return run
