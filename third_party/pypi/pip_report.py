# SPDX-License-Identifier: Apache-2.0
"""Query the host's pip for wheels that satisfy some requirements, and report its progress."""

from __future__ import annotations

import collections
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from third_party.pypi import host_pip, lock, target

# Before it fails, pip tries every release of a package, which takes hours for 2,000 releases. A
# successful search may need 20 retries, for example to find a boto3 that matches a locked botocore.
MAX_RETRIES = 40

_SECONDS_BETWEEN_LINES = 5.0
_CANDIDATE = re.compile(
    r"(?:\s+Downloading|\s+Using cached|Processing) (?:\S*/)?([\w.]+)-([^-\s/]+)-"
)

Report = dict[str, Any]


class ConflictError(Exception):
    """Raised if pip finds no consistent set of versions for the requirements."""


def ask(
    lines: Sequence[str],
    *,
    constraints: Iterable[str],
    links: Path | None = None,
    needs: bool = True,
    max_retries: int | None = MAX_RETRIES,
    say: Callable[[str], None] | None = None,
) -> Report:
    """Return pip's installation report for `lines`.

    `links` is a directory with additional wheels. If `needs` is false, the report omits
    dependencies. `say` prints progress. Raises a ConflictError if pip finds no solution, or if it
    retries with a different version of a package more than `max_retries` times.
    """
    say = say or (lambda text: print(f"update.py: {text}", file=sys.stderr, flush=True))
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        report = directory / "report.json"
        held = directory / "constraints.txt"
        held.write_text("".join(f"{line}\n" for line in constraints))
        command = [
            *host_pip.find().argv, "install", "--dry-run", "--ignore-installed",
            "--only-binary=:all:", "--no-input", "--disable-pip-version-check",
            "--progress-bar=off", f"--target={directory / 'nowhere'}", f"--report={report}",
            f"--constraint={held}", *target.pip_options(target.platforms_for(lines)),
            *([f"--find-links={links}"] if links else []),
            *([] if needs else ["--no-deps"]), *lines,
        ]  # fmt: skip
        progress = _Progress(say, max_retries)
        with (directory / "errors").open("w+") as errors:
            _run(command, directory, errors, progress)
        loaded: Report = json.loads(report.read_text())
    for text in _held_back(loaded, lines, progress.first):
        say(text)
    return loaded


class _Progress:
    """A counter of the versions that pip tries, to report progress and detect hopeless searches."""

    def __init__(self, say: Callable[[str], None], max_retries: int | None) -> None:
        self._say = say
        self._max_retries = max_retries
        self.first: dict[str, str] = {}
        self._tried: collections.Counter[str] = collections.Counter()
        self._start = self._spoken = time.monotonic()

    def line(self, text: str) -> str | None:
        """Process a line of pip's output. Return None, or the reason if the search is hopeless."""
        match = _CANDIDATE.match(text)
        if not match:
            return None
        name = lock.normalize(match[1])
        self.first.setdefault(name, match[2])
        self._tried[name] += 1
        now = time.monotonic()
        if now - self._spoken >= _SECONDS_BETWEEN_LINES:
            self._spoken = now
            tries = f", version {self._tried[name]} of it" if self._tried[name] > 1 else ""
            self._say(
                f"{now - self._start:.0f} s: pip has tried {len(self._tried)} packages, last"
                f" {name}{tries}"
            )
        retries = self._tried.total() - len(self._tried)
        if self._max_retries is None or retries <= self._max_retries:
            return None
        most, versions = self._tried.most_common(1)[0]
        return f"pip found no solution after {retries} retries, {versions} of them of {most}"


def _held_back(report: Report, lines: Sequence[str], first: Mapping[str, str]) -> list[str]:
    """Return a message for each requirement that did not get the version that pip tried first."""
    chosen = {lock.normalize(row["metadata"]["name"]): row["metadata"] for row in report["install"]}
    keys = sorted({lock.requirement_key(line) for line in lines} & chosen.keys() & first.keys())
    return [
        f"{key}: {chosen[key]['version']}, since {first[key]} conflicts with locked versions."
        f" To get it, upgrade the packages that conflict: --upgrade NAME."
        for key in keys
        if first[key] != chosen[key]["version"]
    ]


def _run(command: Sequence[str], directory: Path, errors: Any, progress: _Progress) -> None:
    with subprocess.Popen(
        command, cwd=directory, stdout=subprocess.PIPE, stderr=errors, text=True
    ) as pip:
        assert pip.stdout
        causes: list[str] | None = None
        for text in pip.stdout:
            hopeless = progress.line(text)
            if hopeless:
                pip.kill()
                raise ConflictError(hopeless)
            if text.startswith("The conflict is caused by:"):
                causes = []
            elif causes is not None and text.startswith("    "):
                causes.append(text.strip())
    if pip.returncode:
        errors.seek(0)
        lines = [line.strip() for line in errors if line.startswith("ERROR")]
        reason = "; ".join(causes) if causes else (lines or ["no message"])[-1]
        raise ConflictError(f"pip exited {pip.returncode}: {reason}")
