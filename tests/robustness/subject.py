# SPDX-License-Identifier: Apache-2.0
"""The PARs under test and how to start them: an environment of our choice, all output kept."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from collections.abc import Iterable
from typing import Any


def packed(relative: str) -> pathlib.Path:
    """A PAR that the BUILD file names in `data`, by its path in the workspace."""
    root = pathlib.Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
    return (root / relative).resolve(strict=True)


PROBE = packed("tests/robustness/probe.par")


class Outcome:
    """How a start ended."""

    def __init__(self, finished: subprocess.CompletedProcess[str]) -> None:
        self.status = finished.returncode
        self.out = finished.stdout
        self.err = finished.stderr

    def assert_refused(self, *needles: str) -> None:
        """Exit status not 0, nothing on stdout, and one line on stderr that has every needle."""
        assert self.status > 0, f"status {self.status}, stderr: {self.err}"
        assert self.out == ""
        self._assert_one_line(needles)

    def assert_ran_with_warning(self, *needles: str) -> None:
        assert self.status == 0, self.err
        assert self.seen["sum"] == 45
        self._assert_one_line(needles)

    def assert_ran(self) -> None:
        """It ran in silence."""
        assert (self.status, self.err) == (0, "")
        assert self.seen["sum"] == 45

    @property
    def seen(self) -> dict[str, Any]:
        """What the probe printed."""
        seen: dict[str, Any] = json.loads(self.out)
        return seen

    def _assert_one_line(self, needles: Iterable[str]) -> None:
        assert self.err.count("\n") == 1, f"expected one line, found: {self.err}"
        assert self.err.endswith("\n")
        for needle in needles:
            assert needle in self.err, self.err


def run(
    command: list[str | os.PathLike[str]],
    *,
    environment: dict[str, str] | None = None,
    stdin: str = "",
) -> Outcome:
    """Starts `command` with no environment but the one given."""
    return Outcome(
        subprocess.run(
            command,
            env=environment or {},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    )


def probe(cache: pathlib.Path, *, par: pathlib.Path = PROBE) -> Outcome:
    """Starts the probe with its cache in `cache` and nowhere else to go."""
    return run([par], environment={"PAR_CACHE_DIR": str(cache)})


def bundles(cache: pathlib.Path) -> list[str]:
    """The complete unpacked bundles in a cache; hidden names are locks and half-done work."""
    return sorted(
        entry.name
        for entry in cache.iterdir()
        if entry.is_dir() and not entry.name.startswith(".") and entry.name != "bin"
    )


def partial_work(cache: pathlib.Path) -> list[str]:
    """What an unpacking that did not end has left."""
    return sorted(entry.name for entry in cache.iterdir() if ".new." in entry.name)
