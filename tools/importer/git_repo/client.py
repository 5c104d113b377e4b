# SPDX-License-Identifier: Apache-2.0
"""Run git so that only the repository itself affects the result.

The user's configuration, locale, hooks and environment have no effect, so the same call produces
the same bytes on every machine. The oldest supported git is 2.39.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.importer.errors import EnvironmentProblem

SETTINGS = (
    "core.hooksPath=/dev/null",  # a hook could change a commit or reject a ref update
    "core.fsmonitor=false",  # git would run this program even for our temporary index
    "core.autocrlf=false",  # preserve the tree's bytes instead of using the platform's line endings
    "core.safecrlf=false",  # no warnings: upstream mixes line endings
    "core.attributesFile=/dev/null",  # not the default, a file in the home directory
    "core.excludesFile=/dev/null",  # not the default, a file in the home directory
    "core.splitIndex=false",  # a temporary index must be one file
    "core.packedRefsTimeout=10000",  # wait up to 10 s for another git's lock on packed-refs
    "core.filesRefLockTimeout=10000",  # wait up to 10 s for another git's lock on a ref
    "pack.compression=1",  # three times as fast as level 6; `git gc` compresses again
    "gc.auto=0",  # no repacking while we write
    "maintenance.auto=false",  # newer versions of git use this name for gc.auto
    "i18n.commitEncoding=UTF-8",  # with another value, commits get an `encoding` line
    "i18n.logOutputEncoding=UTF-8",
    "log.showSignature=false",  # `true` would mix gpg's output into the log that we parse
    "protocol.version=2",  # supports fetching a commit by id, and listing only some refs
    "submodule.recurse=false",  # to the importer, a submodule is only an id
)

_NOBODY = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "0",  # drop settings passed in the environment
    "GIT_CONFIG_PARAMETERS": "",  # drop the `-c` settings of a git that started this process
}

_ENVIRONMENT = {
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_LITERAL_PATHSPECS": "1",  # `*` in an upstream file name is literal
    "GIT_NO_REPLACE_OBJECTS": "1",  # refs/replace would show substitute objects
    "GIT_OPTIONAL_LOCKS": "0",  # reading must not lock out the user's own git
    "GIT_TERMINAL_PROMPT": "0",  # a password prompt would hang a job
    "GIT_ASKPASS": "true",
    "GIT_NAMESPACE": "",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES": "",
    "GIT_TRACE": "0",
    "GIT_TRACE2": "0",
    "LANGUAGE": "C",
    "LC_ALL": "C",
}


class Client:
    """A git client for one directory. The environment `variables` select the repository.

    With `network`, git reads the user's configuration (proxies, certificates, credentials), but the
    values in SETTINGS override it.
    """

    def __init__(
        self, directory: Path, variables: Mapping[str, str], *, network: bool = False
    ) -> None:
        self.directory = directory
        self.variables = {**_ENVIRONMENT, **({} if network else _NOBODY), **variables}

    def run(
        self,
        *arguments: str,
        data: bytes = b"",
        variables: Mapping[str, str] | None = None,
        accept: Sequence[int] = (0,),
    ) -> bytes:
        """Run git and return its output. Raises EnvironmentProblem for a status not in `accept`."""
        status, out, stderr = self.attempt(*arguments, data=data, variables=variables)
        if status not in accept:
            raise problem(arguments, self.directory, status, stderr)
        return out

    def attempt(
        self, *arguments: str, data: bytes = b"", variables: Mapping[str, str] | None = None
    ) -> tuple[int, bytes, str]:
        """Run git and return its exit status, standard output and standard error."""
        process = self.start(*arguments, variables=variables)
        out, stderr = process.communicate(data)
        return process.returncode, out, stderr.decode("utf-8", "replace").strip()

    def start(self, *arguments: str, variables: Mapping[str, str] | None = None) -> Any:
        """Start git with pipes for its three streams. The caller must close stdin and wait."""
        command = ["git"]
        for setting in SETTINGS:
            command += ["-c", setting]
        return _runner(self.directory).execute(
            [*command, *arguments],
            as_process=True,
            istream=-1,  # -1 is subprocess.PIPE
            env={**self.variables, **(variables or {})},
        )


def problem(
    arguments: Sequence[str], directory: Path, status: int, stderr: str
) -> EnvironmentProblem:
    """Return the error for a failed git command: its name, exit status and first output lines."""
    lines = [line for line in stderr.splitlines() if line.strip()] or ["it said nothing"]
    return EnvironmentProblem(
        f"git {arguments[0]} in {directory}: exit status {status}: {' / '.join(lines[:3])}"
    )


def person_setting(directory: Path, key: str) -> str | None:
    """Return a setting from the user's git configuration; None if it is unset or empty.

    A `Client` ignores this configuration by default.
    """
    process = _runner(directory).execute(
        # --null allows values with newlines. --includes follows included files, as git itself does.
        ["git", "config", "--null", "--includes", "--get", key],
        as_process=True,
        istream=-1,
    )
    out, _ = process.communicate(b"")
    if process.returncode:
        return None
    return out.decode("utf-8", "replace").rstrip("\0").strip() or None


def _runner(directory: Path) -> Any:
    return _git_class()(directory)


@functools.cache
def _git_class() -> Any:
    try:
        from git.cmd import Git  # imported lazily, because GitPython runs git when imported
    except ImportError as error:
        lines = str(error).strip().splitlines() or ["no reason given"]
        raise EnvironmentProblem(
            f"GitPython: cannot start: {lines[0]}. Install git 2.39 or later, on PATH"
        ) from error
    return Git
