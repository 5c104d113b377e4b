# SPDX-License-Identifier: Apache-2.0
"""Find a pip on the host, or fetch a private one if the host has none.

A fresh Debian installation has python3, but neither pip nor ensurepip. This module does not install
anything: it unpacks Debian's `python3-pip-whl` package into the user's cache, and runs pip from the
wheel in the package.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_DEBIAN_PACKAGE = "python3-pip-whl"
_DEBIAN_WHEELS = Path("/usr/share/python-wheels")


class NoPipError(Exception):
    """Raised if the host has no pip and none can be downloaded. The message gives the reason."""


@dataclass(frozen=True)
class Pip:
    """A command that starts pip.

    `root` is the directory from which pip is imported, or None if pip is one of the interpreter's
    packages.
    """

    argv: tuple[str, ...]
    root: Path | None = None


def find(*, cache: Path | None = None) -> Pip:
    """Return a pip that works.

    The first choice is this interpreter's own pip, the second one is another pip on the host or in
    the cache. If none of them works, download a wheel of pip from Debian to the cache.
    """
    # A clean build calls this function for each wheel, so look for files before starting a process.
    # Importing `pip._internal` takes a quarter of the time of `pip --version`.
    if _is_installed() or _runs((sys.executable, "-c", "import pip._internal")):
        return Pip((sys.executable, "-m", "pip"))
    cache = cache or cache_directory() / "pip"
    for directory in (_DEBIAN_WHEELS, ensurepip_wheels(), cache):
        pip = _from_directory(directory)
        if pip:
            return pip
    return _from_python3() or _fetch(cache)


def environment() -> dict[str, str]:
    """Return the environment for a pip that downloads pinned wheels and installs nothing.

    Settings that require a virtualenv or constrain versions do not apply to it. An empty value of
    PIP_CONSTRAINT would not replace a constraint of pip.conf, so the value names an empty file.
    """
    return {**os.environ, "PIP_REQUIRE_VIRTUALENV": "0", "PIP_CONSTRAINT": os.devnull}


def cache_directory() -> Path:
    """Return torch_google's directory in the user's cache. This module writes only there."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "torch_google"


def ensurepip_wheels() -> Path | None:
    """Return the directory of ensurepip's wheel, or None if this interpreter lacks ensurepip."""
    spec = importlib.util.find_spec("ensurepip")
    return Path(spec.origin).parent / "_bundled" if spec and spec.origin else None


def _is_installed() -> bool:
    """Return whether pip is among this interpreter's packages.

    The result is False in a virtual environment, because with -S, `site` does not list the
    environment's packages.
    """
    executable = Path(sys.executable)
    if any((folder / "pyvenv.cfg").exists() for folder in executable.parents[:2]):
        return False
    return any(Path(packages, "pip/_internal").is_dir() for packages in site.getsitepackages())


def _from_directory(directory: Path | None) -> Pip | None:
    wheels = sorted(directory.glob("pip-*.whl")) if directory and directory.is_dir() else []
    for wheel in reversed(wheels):
        # pip's wheel is a zip file that Python can run.
        argv = (sys.executable, f"{wheel}/pip")
        if _runs((*argv, "--version")):
            return Pip(argv, wheel)
    return None


def _from_python3() -> Pip | None:
    """Return a command with which this interpreter runs the pip package of the python3 on PATH.

    Return None if that python3 has no pip, or if its pip does not work in this interpreter.
    """
    ask = ["python3", "-c", "import pip; print(pip.__path__[0])"]
    with tempfile.TemporaryDirectory() as directory:
        try:
            result = subprocess.run(ask, cwd=directory, capture_output=True, text=True, check=False)
        except OSError:
            return None
    package = Path(result.stdout.strip())
    argv = (sys.executable, str(package))
    works = result.returncode == 0 and _runs((*argv, "--version"))
    return Pip(argv, package.parent) if works else None


def _runs(command: tuple[str, ...]) -> bool:
    # Use an empty working directory, because `python -m pip` prefers a pip package in the
    # current directory.
    with tempfile.TemporaryDirectory() as directory:
        result = subprocess.run(command, cwd=directory, capture_output=True, check=False)
    return result.returncode == 0


def _fetch(cache: Path) -> Pip:
    for tool in ("apt-get", "dpkg-deb"):
        if not shutil.which(tool):
            raise NoPipError(
                f"{sys.executable} has no pip and no ensurepip, and fetching Debian's"
                f" {_DEBIAN_PACKAGE} needs {tool}, which is missing. Install pip for this python3."
            )
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "lock"):
        pip = _from_directory(cache)  # In the meantime, another process may have fetched pip.
        if pip:
            return pip
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            wheel = _download(Path(scratch))
            os.replace(wheel, cache / wheel.name)
    pip = _from_directory(cache)
    if pip:
        return pip
    raise NoPipError(
        f"{cache / wheel.name}, from Debian's {_DEBIAN_PACKAGE}, does not run under"
        f" {sys.executable}. Install pip for this python3."
    )


def _download(scratch: Path) -> Path:
    """Fetch pip's wheel from Debian with apt, without changing the system's apt state."""
    download = _apt_download(scratch, ())
    if download.returncode:
        # The system's package lists are missing, as in a fresh image, or stale, so download
        # package lists to a temporary directory.
        private = _private_state(scratch)
        update = _apt(scratch, [*private, "update"])
        download = _apt_download(scratch, private)
        if download.returncode:
            error_lines = (update.stderr + download.stderr).strip().splitlines()
            raise NoPipError(
                f"{sys.executable} has no pip, and `apt-get download {_DEBIAN_PACKAGE}` exited"
                f" {download.returncode}: {error_lines[-1] if error_lines else 'no message'}."
                " Install pip for this python3, or give apt a mirror it can reach."
            )
    (deb,) = scratch.glob("*.deb")
    command = ["dpkg-deb", "--extract", str(deb), str(scratch / "root")]
    extract = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted((scratch / "root").rglob("pip-*.whl"))
    if extract.returncode or not wheels:
        raise NoPipError(
            f"{deb.name} did not unpack to a pip wheel (dpkg-deb exited {extract.returncode}:"
            f" {extract.stderr.strip() or 'no message'}). Install pip for this python3."
        )
    return wheels[0]


def _private_state(scratch: Path) -> tuple[str, ...]:
    for name in ("lists/partial", "archives/partial"):
        (scratch / name).mkdir(parents=True)
    return (
        "-o", f"Dir::State::lists={scratch}/lists",
        "-o", f"Dir::Cache={scratch}",
        "-o", f"Dir::Cache::archives={scratch}/archives",
    )  # fmt: skip


def _apt_download(scratch: Path, options: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    return _apt(scratch, [*options, "download", _DEBIAN_PACKAGE])


def _apt(scratch: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    # By default, apt run as root switches to a user that cannot write to this directory.
    command = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", *arguments]
    return subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
