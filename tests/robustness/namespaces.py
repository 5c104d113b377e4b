# SPDX-License-Identifier: Apache-2.0
"""Run commands in their own mount namespace, so that their mounts disappear when they exit."""

from __future__ import annotations

import functools
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from tests.robustness import subject

# Scripts for `run`. They run the command $2 $3 ... in a chroot at $1. They bind-mount the caller's
# /proc, because mounting a new /proc would require a PID namespace.
CHROOT = """
mount --rbind /proc "$1/proc"
unset PATH
exec /usr/sbin/chroot "$@"
"""
READ_ONLY_CHROOT = """
mount --bind "$1" "$1"
mount --rbind /proc "$1/proc"
mount -o remount,bind,ro "$1"
unset PATH
exec /usr/sbin/chroot "$@"
"""

# The system libraries that a PAR may use. torch's published wheel needs no others.
_MACHINE_LIBRARIES = (
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
)
_LOADER = pathlib.Path("/lib64/ld-linux-x86-64.so.2")


def require() -> None:
    """Skip the calling test if this machine does not allow a new mount namespace."""
    if not _unshare():
        pytest.skip("this machine allows neither `unshare --mount` nor a user namespace with it")


def run(
    script: str,
    *arguments: str | os.PathLike[str],
    environment: dict[str, str] | None = None,
    network: bool = True,
) -> subject.Outcome:
    """Run a shell script in a new mount namespace. `arguments` become $1, $2, ..."""
    prefix = [*_unshare(), *([] if network else ["--net"])]
    # PATH lets the script find the system tools.
    shell = ["/bin/sh", "-euc", script, "sh", *(os.fspath(argument) for argument in arguments)]
    variables = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **(environment or {})}
    return subject.run([*prefix, *shell], environment=variables)


def bare_root(folder: pathlib.Path, *, names: tuple[str, ...] = _MACHINE_LIBRARIES) -> pathlib.Path:
    """Fill `folder` with the C library, its loader, and empty /proc and /tmp; return `folder`.

    `names` are the C library's files to copy in addition to the loader.
    """
    libraries = folder / "lib" / "x86_64-linux-gnu"
    for directory in (libraries, folder / "lib64", folder / "proc", folder / "tmp"):
        directory.mkdir(parents=True)
    for name in names:
        shutil.copy(_machine_libraries() / name, libraries)
    shutil.copy(_LOADER, folder / "lib64")
    return folder


def _machine_libraries() -> pathlib.Path:
    """Return the directory that this process has loaded the C library from."""
    maps = pathlib.Path("/proc/self/maps").read_text()
    match = re.search(r"(/\S+)/(?:libc\.so\.6|libc-2\.\d+\.so)$", maps, re.MULTILINE)
    assert match is not None, "no C library in /proc/self/maps"
    return pathlib.Path(match.group(1))


@functools.cache
def _unshare() -> list[str]:
    """Return a command prefix that creates a mount namespace, or [] if that is impossible."""
    tool = shutil.which("unshare", path="/usr/bin:/bin")
    if tool is None:
        return []
    attempts = (
        [tool, "--mount"],
        [tool, "--user", "--map-root-user", "--mount"],
    )
    for attempt in attempts:
        trial = [*attempt, "/bin/sh", "-c", "mount -t tmpfs none /tmp"]
        if subprocess.run(trial, capture_output=True, check=False).returncode == 0:
            return attempt
    return []
