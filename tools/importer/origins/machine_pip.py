# SPDX-License-Identifier: Apache-2.0
"""Download wheels with the host's pip and its configuration (pip.conf, PIP_*)."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from third_party.pypi import host_pip
from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.origins.origin import NotHereError

_VERSIONS = re.compile(r"\(from versions: ([^)]*)\)")
_HASHES = "DO NOT MATCH THE HASHES"
_CONSTRAINT = re.compile(r"The user requested \(constraint\) (\S.*)")
# pip reports "No matching distribution" even if the connection failed. These messages reveal a
# failed connection.
_UNREACHED = ("Retrying (", "Read timed out", "Connection", "HTTP error 5", "NewConnectionError")
# Do not wait long for an unreachable index.
_PATIENCE = ("--timeout=20", "--retries=1")


@dataclass(frozen=True)
class Request:
    """A wheel to download. `options` selects the platform and `sha256`, if set, a single file."""

    project: str
    version: str
    options: tuple[str, ...]
    sha256: str | None = None
    index: str | None = None

    @property
    def requirement(self) -> str:
        return f"{self.project}=={self.version}"


class ConstrainedError(UserError):
    """The error raised for a version that the user's or the host's pip constraints forbid."""


def download(request: Request, directory: Path) -> Path:
    """Download the wheel into `directory`.

    Raises NotHereError if no index has it, ConstrainedError if a constraint forbids it, UserError
    if its hash is wrong, and EnvironmentProblem for other failures.
    """
    requirements = directory / "requirements.txt"
    line = request.requirement + (f" --hash=sha256:{request.sha256}" if request.sha256 else "")
    requirements.write_text(line + "\n", encoding="utf-8")
    (directory / "tmp").mkdir()
    result = _pip(
        directory / "tmp",
        "download", "--no-deps", "--only-binary=:all:", "--no-input", "--progress-bar=off",
        "--disable-pip-version-check", *(["--require-hashes"] if request.sha256 else []),
        *_PATIENCE, *request.options, f"--dest={directory}", f"--requirement={requirements}",
        *([f"--index-url={request.index}"] if request.index else []),
    )  # fmt: skip
    wheels = sorted(directory.glob("*.whl"))
    if result.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    raise _failure(request, result)


@functools.cache
def _command() -> tuple[str, ...]:
    """Return the pip command of the python3 on PATH, or else the one that host_pip finds."""
    python = shutil.which("python3")
    if python:
        with tempfile.TemporaryDirectory() as directory:
            # Run in an empty directory, because `-m` would import any module named pip from the
            # caller's directory.
            probe = [python, "-m", "pip", "--version"]
            if not subprocess.run(
                probe, cwd=directory, capture_output=True, check=False
            ).returncode:
                return (python, "-m", "pip")
    try:
        return host_pip.find().argv
    except host_pip.NoPipError as error:
        raise EnvironmentProblem(f"pip: {error}") from error


def _pip(scratch: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Override PIP_REQUIRE_VIRTUALENV, because nothing is installed. Leave constraints in effect,
    # because an administrator may use them to restrict downloads. An empty PIP_CONSTRAINT means
    # that the user wants no constraint, but pip would treat it as unset and use the one in its
    # configuration.
    environment = {
        **os.environ, "LC_ALL": "C.UTF-8", "PIP_REQUIRE_VIRTUALENV": "0",
        "PIP_REQUIREMENT": "", "PIP_QUIET": "0", "PIP_NO_DEPS": "1",
        "TMPDIR": str(scratch),  # pip writes large temporary files, and /tmp may be small
    }  # fmt: skip
    if environment.get("PIP_CONSTRAINT") == "":
        environment["PIP_CONSTRAINT"] = os.devnull
    return subprocess.run(
        [*_command(), *arguments],
        cwd=scratch,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def _failure(request: Request, result: subprocess.CompletedProcess[str]) -> Exception:
    output = result.stdout + result.stderr
    if _HASHES in output:
        got = re.search(r"Got\s+([0-9a-f]{64})", output)
        return UserError(
            f"{request.requirement}: sha256 is {got[1] if got else 'another one'}, the pin says"
            f" {request.sha256}. Distrust the index; import again if the new bytes are the right ones"
        )
    where = request.index or "the indexes that pip is set to"
    constraint = _CONSTRAINT.search(output)
    if constraint and not _forbids(constraint[1].strip(), request.version):
        # If no index has the version, pip blames any constraint, even one that allows the version.
        return NotHereError(f"no {request.requirement} at {where}")
    if constraint:
        return ConstrainedError(
            f"pip may not fetch {request.requirement}: this machine constrains it to"
            f" '{constraint[1].strip()}' (PIP_CONSTRAINT, or a file that `pip config list` names)."
            " Import a release that it allows, or set PIP_CONSTRAINT to nothing for this command"
        )
    listed = _VERSIONS.search(output)
    versions = [] if listed is None or listed[1] == "none" else listed[1].split(", ")
    if listed and not any(mark in output for mark in _UNREACHED):
        return NotHereError(
            f"no {request.requirement} at {where}",
            known=[f"v{name.partition('+')[0]}" for name in versions],
        )
    return EnvironmentProblem(
        f"pip exited {result.returncode} looking for {request.requirement} at {where}:"
        f" {_last_error(output)}"
    )


def _forbids(constraint: str, version: str) -> bool:
    # Imported lazily, because only failures need it.
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return not Requirement(constraint).specifier.contains(version, prereleases=True)
    except InvalidRequirement:
        return True  # such as a file or a URL in place of a version


def _last_error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines
    last = errors[-1].removeprefix("ERROR:").strip().rstrip(".")[:300] if errors else "no message"
    if last == "Exception:":  # pip's own traceback follows; its last line is the reason
        last = lines[-1]
    broken = next((line for line in lines if any(mark in line for mark in _UNREACHED)), None)
    if broken is None:
        return last
    reason = re.search(r"(\[Errno [^']*|Read timed out|HTTP error \d+[^)]*)", broken)
    return f"{last}, after failed connections{f' ({reason[1]})' if reason else ''}"
