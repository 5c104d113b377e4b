# SPDX-License-Identifier: Apache-2.0
"""Write the launcher, the script that `bazelw` execs once Bazel has been set up."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_USER_HAS_DISK_CACHE = (
    """grep -qs '^[^#]*--disk_cache' "$root/.bazelrc.user" "${HOME:-}/.bazelrc\""""
)
# Use a UTF-8 locale. If a test was killed, Bazel deletes the test's files the next time it starts.
# In an ASCII locale, it would crash on every start if one of those files had a non-ASCII name.
_LOCALE = "case ${LC_ALL:-${LC_CTYPE:-${LANG:-C}}} in C | POSIX) export LC_ALL=C.UTF-8 ;; esac"


class Unavailable(Exception):
    """Raised if a provider cannot supply Bazel on this machine. The message is one line."""


@dataclass(frozen=True)
class Launcher:
    """A command that starts Bazel: program, startup options, default environment variables."""

    program: Path
    version: str
    source: str
    startup_options: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def script(self, *, rc: Path) -> str:
        """Return the launcher script, whose arguments are the workspace and Bazel's arguments.

        `rc` is a bazelrc that sets the shared disk cache. Bazel reads it after the user's own
        files, so it would override them. The script therefore omits it if a user's file sets a disk
        cache.
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
    """Write `text` to `path` atomically: readers see either the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    staged.write_text(text)
    staged.chmod(mode)
    staged.replace(path)
