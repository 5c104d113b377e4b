# SPDX-License-Identifier: Apache-2.0
"""Write the launcher, the small script that `bazelw` execs once Bazel has been set up."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_USER_HAS_DISK_CACHE = (
    """grep -qs '^[^#]*--disk_cache' "$root/.bazelrc.user" "${HOME:-}/.bazelrc\""""
)
# If a test was killed, Bazel deletes the test's files at its next start. In an ASCII locale, this
# crashes Bazel, at every start, if one of the files has a non-ASCII character in its name.
_LOCALE = "case ${LC_ALL:-${LC_CTYPE:-${LANG:-C}}} in C | POSIX) export LC_ALL=C.UTF-8 ;; esac"


class Unavailable(Exception):
    """An error for a provider that cannot supply Bazel on this machine. The message is one line."""


@dataclass(frozen=True)
class Launcher:
    """The command that starts a Bazel: program, startup options, default environment variables."""

    program: Path
    version: str
    source: str
    startup_options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def script(self, *, rc: Path) -> str:
        """Return the launcher script. It takes the workspace and Bazel's arguments as arguments.

        `rc` is a bazelrc that sets the shared disk cache. Bazel reads it after the user's own files
        and it would override them, so the script omits it if one of those files sets a disk cache.
        """
        command = [str(self.program), *self.startup_options]
        defaults = [
            f'export {name}="${{{name}:-{value}}}"'
            for name, value in sorted(self.environment.items())
        ]
        program = shlex.quote(str(self.program))
        gone = shlex.quote(
            f"bazelw: {self.program} no longer exists. Delete this launcher and run bazelw again:"
        )
        return "\n".join(
            [
                "#!/bin/sh",
                f"# Written by tools/bazel: Bazel {self.version} from {self.source}.",
                "root=$1; shift",
                f'[ -x {program} ] || {{ echo {gone} "$0" >&2; exit 1; }}',
                f'[ "$*" != --version ] || {{ echo "bazel {self.version}"; exit 0; }}',
                *defaults,
                _LOCALE,
                f"if ! {_USER_HAS_DISK_CACHE}; then",
                f'  set -- {shlex.quote(f"--bazelrc={rc}")} "$@"',
                "fi",
                f'exec {shlex.join(command)} "$@"',
                "",
            ]
        )


def write_atomically(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Write `text` to `path` atomically, so that readers see either the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    staged.write_text(text)
    staged.chmod(mode)
    staged.replace(path)
