#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetch a pinned wheel with pip, verify it and unpack it, using only the standard library.

    fetch_wheel.py --requirement numpy==2.4.6 --filename numpy-...whl --sha256 ... --site DIR

Repository rules run this script with the host's python3. The wheel is for the platform in
target.py, not for the host. pip uses the user's configuration (pip.conf, PIP_*).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # If run as a script, put the workspace's root on sys.path.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from third_party.pypi import host_pip, target, unpack_wheel

# Seconds to wait before running pip again after its own retries have failed, for example because a
# mirror is down for a minute.
_PAUSES = (2.0, 8.0)

# Options that make pip give up early if the extra index is unreachable.
_EXTRA_INDEX_PATIENCE = ("--timeout=20", "--retries=1")

# The environment variable that replaces the URL of PyTorch's own index. No other index has torch's
# +cpu wheels.
_EXTRA_INDEX_VARIABLE = "TORCH_GOOGLE_TORCH_INDEX"

_CHUNK = 1 << 20


class FetchError(Exception):
    """Raised if the wheel cannot be fetched. The message gives the reason and the next step."""


@dataclass(frozen=True)
class Pin:
    """A wheel and its hash. `source`, the file that pins the wheel, appears in error messages."""

    requirement: str
    filename: str
    sha256: str
    source: str


Runner = Callable[[Sequence[str], Path], "subprocess.CompletedProcess[str]"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--requirement", required=True, help="NAME==VERSION")
    parser.add_argument("--filename", required=True, help="the wheel's file name")
    parser.add_argument("--sha256", required=True)
    parser.add_argument("--source", required=True, help="the file that holds the pin")
    outputs = parser.add_mutually_exclusive_group(required=True)
    outputs.add_argument("--site", type=Path, help="directory to create, with the unpacked wheel")
    outputs.add_argument("--wheel", type=Path, help="file to create, the wheel itself")
    parser.add_argument(
        "--extra-index",
        help=f"asked when the user's own indexes fail; {_EXTRA_INDEX_VARIABLE} replaces it",
    )
    flags = parser.parse_args()
    pin = Pin(flags.requirement, flags.filename, flags.sha256, flags.source)
    try:
        output: Path = (flags.site or flags.wheel).absolute()
        with tempfile.TemporaryDirectory(dir=output.parent, prefix="wheel-") as directory:
            wheel = fetch(pin, Path(directory), extra_index=flags.extra_index)
            if flags.site:
                unpack_wheel.unpack(wheel, output)
            else:
                os.replace(wheel, output)
    except (
        FetchError,
        host_pip.NoPipError,
        unpack_wheel.UnpackError,
        zipfile.BadZipFile,
        OSError,
    ) as error:
        print(f"{pin.source}: {pin.requirement}: {error}", file=sys.stderr)
        return 1
    return 0


def fetch(
    pin: Pin,
    directory: Path,
    *,
    extra_index: str | None = None,
    run: Runner | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Path:
    """Download the wheel to `directory` and return its path.

    pip queries the user's configured indexes first, and `extra_index` only if they lack the wheel.
    An unreachable `extra_index` then costs about a minute. `run` replaces pip in tests.
    """
    platforms = target.platforms(pin.filename)
    if platforms is None:
        raise FetchError(
            f"'{pin.filename}' is not a wheel for {target.DESCRIPTION}."
            f" Correct {pin.source} ({_update_hint(pin)})."
        )
    requirements = directory / "requirements.txt"
    requirements.write_text(f"{pin.requirement} --hash=sha256:{pin.sha256}\n")
    command = [
        "download", "--require-hashes", "--no-deps", "--only-binary=:all:",
        "--no-input", "--progress-bar=off", "--disable-pip-version-check",
        *target.pip_options(platforms),
        f"--dest={directory}", f"--requirement={requirements}",
    ]  # fmt: skip
    pip = run or _pip_runner()
    result = _attempt(pip, command, directory, sleep)
    extra_index = extra_index and os.environ.get(_EXTRA_INDEX_VARIABLE, extra_index)
    if result.returncode and extra_index and not _mismatch(result):
        user_result = result
        extra = [*command, f"--index-url={extra_index}", *_EXTRA_INDEX_PATIENCE]
        result = pip(extra, directory)
        if result.returncode and not _mismatch(result):
            raise FetchError(
                f"neither the configured indexes ({_last_error(user_result)}) nor {extra_index}"
                f" ({_last_error(result)}) gave '{pin.filename}'. Point pip at an index or"
                " a find-links folder that has it (pip.conf, PIP_FIND_LINKS)."
            )
    if result.returncode:
        raise _failure(pin, result)
    return _checked(pin, directory)


def _attempt(
    pip: Runner, command: Sequence[str], directory: Path, sleep: Callable[[float], None]
) -> subprocess.CompletedProcess[str]:
    for pause in _PAUSES:
        result = pip(command, directory)
        if result.returncode == 0 or not _is_transient(result):
            return result
        sleep(pause)
    return pip(command, directory)


def _pip_runner() -> Runner:
    pip = host_pip.find()
    environment = host_pip.environment()

    def run(arguments: Sequence[str], directory: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*pip.argv, *arguments],
            cwd=directory,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def _checked(pin: Pin, directory: Path) -> Path:
    """Check the wheel's name and hash, without relying on pip; return the wheel's path."""
    wheels = sorted(directory.glob("*.whl"))
    if [wheel.name for wheel in wheels] != [pin.filename]:
        names = ", ".join(wheel.name for wheel in wheels) or "no wheel"
        raise FetchError(f"expected '{pin.filename}', pip brought {names}. {_update_hint(pin)}.")
    actual = sha256(wheels[0])
    if actual != pin.sha256:
        raise _mismatch_error(pin, actual)
    return wheels[0]


def sha256(path: Path) -> str:
    """Return a file's SHA-256 in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _failure(pin: Pin, result: subprocess.CompletedProcess[str]) -> FetchError:
    actual = _mismatch(result)
    if actual:
        return _mismatch_error(pin, actual)
    return FetchError(
        f"pip exited {result.returncode} looking for '{pin.filename}': {_last_error(result)}."
        f" Check the indexes that pip is set to use, or {_update_hint(pin)}."
    )


def _mismatch_error(pin: Pin, actual: str) -> FetchError:
    return FetchError(
        f"sha256 of '{pin.filename}' is {actual}, the pin says {pin.sha256}."
        f" Distrust the index; if the new bytes are the right ones, {_update_hint(pin)}."
    )


def _update_hint(pin: Pin) -> str:
    if pin.source.startswith("//"):  # The pin is in a lock of another workspace.
        return "run @torch_google//third_party/pypi:update for it"
    directory = pin.source.rpartition("/")[0]
    if directory in ("third_party/torch/cuda", "third_party/torch/newer"):
        return f"run {directory}/update.py"
    if pin.source.endswith("lock.json"):
        return "run third_party/pypi/update.py"
    if pin.source == "third_party/torch/pin.json":  # The locks contain torch's requirements.
        return f"edit {pin.source} and run third_party/pypi/update.py"
    return f"edit {pin.source}"


def _mismatch(result: subprocess.CompletedProcess[str]) -> str | None:
    if "DO NOT MATCH THE HASHES" not in result.stderr:
        return None
    got = re.search(r"Got\s+([0-9a-f]{64})", result.stderr)
    return got[1] if got else "another one"


def _is_transient(result: subprocess.CompletedProcess[str]) -> bool:
    """Return whether a connection failed.

    pip's last error does not say so: it is 'No matching distribution' even then.
    """
    marks = ("Retrying (", "Read timed out", "Connection", "HTTP error 5", "IncompleteRead")
    return not _mismatch(result) and any(mark in result.stdout + result.stderr for mark in marks)


def _last_error(result: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in result.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines
    last = errors[-1].removeprefix("ERROR:").strip().rstrip(".") if errors else "no message"
    return f"{last}, after failed connections" if _is_transient(result) else last


if __name__ == "__main__":
    sys.exit(main())
