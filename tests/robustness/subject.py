# SPDX-License-Identifier: Apache-2.0
"""The PARs that the tests start, and functions that start them with a given environment."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from collections.abc import Iterable
from typing import Any


def packed(relative: str) -> pathlib.Path:
    """Return the path of a file in the target's `data`, given its path in the workspace."""
    root = pathlib.Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
    return (root / relative).resolve(strict=True)


PROBE = packed("tests/robustness/probe.par")


class Outcome:
    """The outcome of a run: exit status, stdout and stderr."""

    def __init__(self, finished: subprocess.CompletedProcess[str]) -> None:
        self.status = finished.returncode
        self.out = finished.stdout
        self.err = finished.stderr

    def assert_refused(self, *needles: str) -> None:
        """Assert a positive status, empty stdout, and a single stderr line with all `needles`."""
        assert self.status > 0, f"status {self.status}, stderr: {self.err}"
        assert self.out == ""
        self._assert_one_line(needles)

    def assert_ran_with_warning(self, *needles: str) -> None:
        assert self.status == 0, self.err
        assert self.seen["sum"] == 45
        self._assert_one_line(needles)

    def assert_ran(self) -> None:
        """Assert status 0, empty stderr, and the correct sum in the probe's output."""
        assert (self.status, self.err) == (0, "")
        assert self.seen["sum"] == 45

    @property
    def seen(self) -> dict[str, Any]:
        """The state that the probe printed, parsed from its JSON output."""
        state: dict[str, Any] = json.loads(self.out)
        return state

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
    """Run `command` with exactly the given environment."""
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
    """Run the probe with `cache` as its only cache directory."""
    return run([par], environment={"PAR_CACHE_DIR": str(cache)})


def bundles(cache: pathlib.Path) -> list[str]:
    """Return the complete bundles in a cache, without locks and incomplete directories.

    A bundle is a directory of unpacked libraries.
    """
    return sorted(
        entry.name
        for entry in cache.iterdir()
        if entry.is_dir() and not entry.name.startswith(".") and entry.name != "bin"
    )


def partial_work(cache: pathlib.Path) -> list[str]:
    """Return the incomplete directories left in a cache when unpacking was interrupted."""
    return sorted(entry.name for entry in cache.iterdir() if ".new." in entry.name)
