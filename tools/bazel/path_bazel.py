# SPDX-License-Identifier: Apache-2.0
"""Bazel from a `bazelisk` or `bazel` that is on PATH already."""

from __future__ import annotations

import shutil
from pathlib import Path

from tools.bazel import command
from tools.bazel.launcher import Launcher, Unavailable

# bazelisk may have to fetch Bazel (60 MB) before it can tell its version.
_PROBE_SECONDS = 180
# Set while a candidate is asked for its version: a `bazel` on PATH may be a link to bazelw itself.
_PROBING = "BAZELW_PROBING"


def provide(*, root: Path, version: str) -> Launcher:
    """The first of bazelisk and bazel on PATH that runs `version`; raises Unavailable."""
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
    """A launcher for `program` if it really starts `version` in this workspace; raises Unavailable.

    `--version` starts no server; bazelisk answers it by fetching and running the right Bazel.
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
    found = answer.strip() or "nothing"
    if found != f"bazel {version}":
        raise Unavailable(f"{program} is '{found}'")
    return Launcher(program=program, version=version, source=str(program), environment=environment)
