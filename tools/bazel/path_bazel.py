# SPDX-License-Identifier: Apache-2.0
"""Provide Bazel from a `bazelisk` or `bazel` program on PATH."""

from __future__ import annotations

import re
import shutil
import socket
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from tools.bazel import command
from tools.bazel.launcher import Launcher, Unavailable

# bazelisk may have to download Bazel (60 MB) before it can print the version.
_PROBE_SECONDS = 180
# An environment variable that is set while a candidate prints its version. If a `bazel` on PATH is
# a link to bazelw, this variable tells bazelw that it is calling itself.
_PROBING = "BAZELW_PROBING"
# bazelisk writes this to stderr before it starts a download.
_DOWNLOAD = re.compile(r" Downloading (?P<url>https?://\S+?)(\.\.\.)?\s*$")
# getaddrinfo's errors for a host that does not exist. All others may be temporary.
_NO_ADDRESS = (socket.EAI_NONAME, socket.EAI_NODATA)


def provide(*, root: Path, version: str) -> Launcher:
    """Return a launcher for bazelisk on PATH or, if that cannot run Bazel `version`, for bazel.

    Raises:
        Unavailable: neither program runs that version, or neither exists.
    """
    reasons = []
    for name in ("bazelisk", "bazel"):
        program = shutil.which(name)
        if program is None:
            reasons.append(f"no {name}")
            continue
        try:
            return probe(Path(program).absolute(), root=root, version=version)
        except Unavailable as error:
            reasons.append(str(error))
    raise Unavailable(", ".join(reasons))


def probe(program: Path, *, root: Path, version: str) -> Launcher:
    """Return a launcher for `program`. Raises Unavailable if it does not run Bazel `version`.

    Runs `program --version`, which starts no server. If `program` is bazelisk, it may download
    Bazel first. The probe ends early if the download's host has no address, because bazelisk would
    retry four times, which takes 15 s.
    """
    environment = {"USE_BAZEL_VERSION": version}
    try:
        answer = command.run_unless(
            [program, "--version"],
            hopeless=_no_address,
            seconds=_PROBE_SECONDS,
            cwd=root,
            env={**environment, _PROBING: "1"},
        )
    except command.CommandError as error:
        raise Unavailable(str(error)) from error
    answer = answer.strip() or "nothing"
    if answer != f"bazel {version}":
        raise Unavailable(f"{program} is '{answer}'")
    return Launcher(program=program, version=version, source=str(program), environment=environment)


def _no_address(line: str) -> str | None:
    """Return why a download that bazelisk announces cannot succeed, or None if it may succeed."""
    match = _DOWNLOAD.search(line)
    # With a proxy, this machine need not resolve host names, because the proxy does.
    if match is None or urllib.request.getproxies():
        return None
    host = urlsplit(match["url"]).hostname
    try:
        socket.getaddrinfo(host, None)
    except socket.gaierror as error:
        return f"{host} has no address" if error.errno in _NO_ADDRESS else None
    return None
