# SPDX-License-Identifier: Apache-2.0
"""Read and write results.json, which has a row for each case and mode."""

from __future__ import annotations

import enum
import fcntl
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.resources.abc import Traversable
from pathlib import Path

FILE = Path(__file__).with_name("results.json")


class Verdict(enum.StrEnum):
    PASSED = "passed"
    DIFFERS = "differs"
    """A tensor differs from the CPU's."""
    FAILED = "failed"
    """The case raised an error on the device, but not on the CPU."""
    CRASHED = "crashed"
    """The case ended its process."""
    SLOW = "slow"
    """The case exceeded the time limit."""
    BROKEN = "broken"
    """The case fails on the CPU, so nothing is known about the device."""


@dataclass(frozen=True, order=True)
class Row:
    """The result of a case in one mode. `cause` is one line, or empty if the case passed.

    `source` is the digest of the case's code when it ran. If it is not the current digest, the row
    is stale.
    """

    library: str
    version: str
    case: str
    mode: str
    verdict: Verdict
    cause: str = ""
    source: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.library, self.case, self.mode


def read(file: Path | Traversable = FILE) -> list[Row]:
    """Read the rows. Raises ValueError if the file is malformed."""
    document = json.loads(file.read_text(encoding="utf-8"))
    try:
        return [Row(**{**row, "verdict": Verdict(row["verdict"])}) for row in document]
    except (TypeError, KeyError) as error:
        raise ValueError(f"{file}: it is not a list of rows ({error}). Run run.py again") from error


def write(rows: Iterable[Row], file: Path = FILE) -> None:
    """Sort the rows, and write them atomically."""
    lines = [json.dumps(asdict(row)) for row in sorted(rows)]
    temporary = file.with_name(f"{file.name}.part")
    temporary.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    temporary.replace(file)


@contextmanager
def locked_for_writing(file: Path = FILE) -> Iterator[None]:
    """Prevent other processes from writing results while the block runs."""
    # Lock the directory instead of the file, because `write` replaces the file.
    directory = os.open(file.parent, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def one_line(text: str, limit: int = 160) -> str:
    """Return the first nonblank line of an error message, without directories and addresses."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = re.sub(r"(?:/[\w.+@-]+)+/([\w.+@-]+)", r"\1", lines[0] if lines else "no message")
    line = re.sub(r"0x[0-9a-f]{6,}", "0x...", line)
    return line if len(line) <= limit else f"{line[: limit - 3]}..."
