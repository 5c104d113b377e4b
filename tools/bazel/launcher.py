# SPDX-License-Identifier: Apache-2.0
"""The launcher: the small script that `bazelw` becomes once a Bazel was found."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_USER_HAS_DISK_CACHE = (
    """grep -qs '^[^#]*--disk_cache' "$root/.bazelrc.user" "${HOME:-}/.bazelrc\""""
)


class Unavailable(Exception):
    """A provider cannot give the wanted Bazel here; the text is one line that says why."""


@dataclass(frozen=True)
class Launcher:
    """How to start one Bazel: program, startup options, defaults for the environment."""

    program: Path
    version: str
    source: str
    startup_options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def script(self, *, rc: Path) -> str:
        """The text of the launcher, which is called with the workspace and the words for Bazel.

        `rc` sets the shared disk cache. Bazel reads it after the user's own files, so it is left
        out where one of them names a disk cache.
        """
        words = [str(self.program), *self.startup_options]
        defaults = [
            f'export {name}="${{{name}:-{value}}}"'
            for name, value in sorted(self.environment.items())
        ]
        program = shlex.quote(str(self.program))
        gone = shlex.quote(
            f"bazelw: {self.program} is gone. Delete this launcher and run bazelw again:"
        )
        return "\n".join(
            [
                "#!/bin/sh",
                f"# Written by tools/bazel: Bazel {self.version} from {self.source}.",
                "root=$1; shift",
                f'[ -x {program} ] || {{ echo {gone} "$0" >&2; exit 1; }}',
                f'[ "$*" != --version ] || {{ echo "bazel {self.version}"; exit 0; }}',
                *defaults,
                f"if ! {_USER_HAS_DISK_CACHE}; then",
                f'  set -- {shlex.quote(f"--bazelrc={rc}")} "$@"',
                "fi",
                f'exec {shlex.join(words)} "$@"',
                "",
            ]
        )


def write_atomically(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Makes `path` hold `text`: readers see the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    staged.write_text(text)
    staged.chmod(mode)
    staged.replace(path)
