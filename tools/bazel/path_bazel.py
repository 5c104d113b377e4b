# SPDX-License-Identifier: Apache-2.0
"""Provide Bazel from a `bazelisk` or `bazel` program on PATH."""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.bazel import command
from tools.bazel.launcher import Launcher, Unavailable

# bazelisk may have to download Bazel (60 MB) before it can print the version.
_PROBE_SECONDS = 180
# An environment variable that is set for candidates while they print their version. If a `bazel`
# on PATH is a link to bazelw, it detects the loop by this variable.
_PROBING = "BAZELW_PROBING"


def provide(*, root: Path, version: str) -> Launcher:
    """Return a launcher for bazelisk or bazel on PATH, whichever first runs `version`.

    Raises:
        Unavailable: neither exists and runs that version.
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
    """Return a launcher for `program`. Raises Unavailable if it does not run `version` here.

    Runs `program --version`, which starts no server. If `program` is bazelisk, it may download
    that Bazel first.
    """
    environment = {"USE_BAZEL_VERSION": version}
    try:
        answer = command.run(
            [program, "--version"],
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
