# SPDX-License-Identifier: Apache-2.0
"""Read suites.json: the libraries' suites, the excluded tests, and the known failures."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("suites.json")


@dataclass(frozen=True)
class Note:
    """The reason why some tests are excluded, or why they fail on tpu.

    `tests` is a pattern for these tests, for example `tests/test_layers.py::test_pool*`.
    """

    tests: str
    reason: str

    def covers(self, test: str) -> bool:
        return fnmatch.fnmatchcase(test, self.tests)


@dataclass(frozen=True)
class Suite:
    """A part of a library's own test suite.

    `part` tells several suites of the same library apart; the first one needs none.
    `paths` are files and folders in the source distribution, or tests in a file, written as pytest
    does (`FILE::CLASS::TEST`, with all its parameters). In `environment`, `{device}` is replaced by
    the device's name. If `default_device` is true, tensors without an explicit device are created
    on the device under test. Tests in `excluded` are not run on any device. `causes` says why some
    tests fail on tpu; these tests still run.
    """

    library: str
    version: str
    sha256: str
    paths: tuple[str, ...]
    environment: Mapping[str, str]
    default_device: bool
    excluded: tuple[Note, ...]
    causes: tuple[Note, ...]
    part: str = ""

    @property
    def name(self) -> str:
        return f"{self.library}-{self.part}" if self.part else self.library

    def includes(self, test: str) -> bool:
        """Return whether a test is in one of the suite's paths, and is not excluded."""
        inside = any(test.startswith((f"{path}/", f"{path}::", f"{path}[")) for path in self.paths)
        return (inside or test in self.paths) and not reason(self.excluded, test)

    def variables(self, device: str) -> dict[str, str]:
        """Return the environment variables for running the suite on a device."""
        return {name: text.format(device=device) for name, text in self.environment.items()}


def load(file: Path = FILE) -> dict[str, Suite]:
    """Map the names of suites to the suites. Raises a ValueError if the file is malformed."""
    return parse(json.loads(file.read_text(encoding="utf-8")), file)


def parse(rows: Iterable[Mapping[str, Any]], file: Path = FILE) -> dict[str, Suite]:
    """Create suites from JSON values. Raises a ValueError that names the malformed row."""
    suites: dict[str, Suite] = {}
    for row in rows:
        try:
            notes = {
                field: tuple(Note(**note) for note in row.get(field, ()))
                for field in ("excluded", "causes")
            }
            suite = Suite(
                **{"environment": {}, "default_device": False, **row, **notes},
            )
        except TypeError as error:
            raise ValueError(f"{file}: {row.get('library', row)}: {error}. See Suite") from error
        if suite.name in suites:
            raise ValueError(f"{file}: {suite.name} is there twice. Merge its rows")
        for note in (*suite.excluded, *suite.causes):
            if not note.reason:
                raise ValueError(f"{file}: {suite.name}: give a reason for {note.tests}")
        suites[suite.name] = suite
    return suites


def reason(notes: Iterable[Note], test: str) -> str:
    """Return the `reason` of the first Note that covers a test, or "" if no Note covers it."""
    return next((note.reason for note in notes if note.covers(test)), "")
