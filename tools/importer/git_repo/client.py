# SPDX-License-Identifier: Apache-2.0
"""Run git so that only the repository itself decides what happens.

The person's configuration, locale, hooks and environment have no influence: the same call gives the
same bytes on every machine. git 2.39 is the oldest that is supported.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.importer.errors import EnvironmentProblem

SETTINGS = (
    "core.hooksPath=/dev/null",  # a hook could change what is committed, or refuse a ref
    "core.fsmonitor=false",  # may name a program, and would be asked about our temporary index
    "core.autocrlf=false",  # the tree's bytes, not the machine's idea of line ends
    "core.safecrlf=false",  # upstream mixes line ends, and that is no news
    "core.attributesFile=/dev/null",  # its default is below the home directory, configured or not
    "core.excludesFile=/dev/null",  # the same
    "core.splitIndex=false",  # a temporary index must be one file
    "core.packedRefsTimeout=10000",  # ms to wait for a lock of another git, instead of failing
    "core.filesRefLockTimeout=10000",  # the same
    "pack.compression=1",  # thrice as fast to write as 6; `git gc` compresses again
    "gc.auto=0",  # nothing repacks while we write
    "maintenance.auto=false",  # the same, by its newer name
    "i18n.commitEncoding=UTF-8",  # else commits get an `encoding` line
    "i18n.logOutputEncoding=UTF-8",
    "log.showSignature=false",  # would mix gpg's words into what is read here
    "protocol.version=2",  # servers hand out a commit by its id, and only the refs asked for
    "submodule.recurse=false",  # a submodule is an id to us
)

_NOBODY = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "0",  # settings by environment
    "GIT_CONFIG_PARAMETERS": "",  # `git -c` of a git that started us
}

_ENVIRONMENT = {
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_LITERAL_PATHSPECS": "1",  # `*` in an upstream file name is a star
    "GIT_NO_REPLACE_OBJECTS": "1",  # refs/replace would show objects that are not there
    "GIT_OPTIONAL_LOCKS": "0",  # looking takes no lock from the person's own git
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
    """git in one directory, with variables that say which repository.

    `network`: how a network is reached (proxies, certificates, credentials) is the person's to say,
    so settings count there, but for those of SETTINGS.
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
        """Return what git prints. A status that is not in `accept` raises EnvironmentProblem."""
        status, out, words = self.attempt(*arguments, data=data, variables=variables)
        if status not in accept:
            raise problem(arguments, self.directory, status, words)
        return out

    def attempt(
        self, *arguments: str, data: bytes = b"", variables: Mapping[str, str] | None = None
    ) -> tuple[int, bytes, str]:
        """Return status, output and what git said on standard error."""
        process = self.start(*arguments, variables=variables)
        out, words = process.communicate(data)
        return process.returncode, out, words.decode("utf-8", "replace").strip()

    def start(self, *arguments: str, variables: Mapping[str, str] | None = None) -> Any:
        """Start git with pipes on its three streams; the caller closes its input and waits."""
        command = ["git"]
        for setting in SETTINGS:
            command += ["-c", setting]
        return _runner(self.directory).execute(
            [*command, *arguments],
            as_process=True,
            istream=-1,  # subprocess.PIPE
            env={**self.variables, **(variables or {})},
        )


def problem(
    arguments: Sequence[str], directory: Path, status: int, words: str
) -> EnvironmentProblem:
    """Return the error of a git that failed: its subcommand, its status and its first words."""
    lines = [line for line in words.splitlines() if line.strip()] or ["it said nothing"]
    return EnvironmentProblem(
        f"git {arguments[0]} in {directory}: exit status {status}: {' / '.join(lines[:3])}"
    )


def person_setting(directory: Path, key: str) -> str | None:
    """Return one setting as the person's own git has it: the one place where that counts."""
    process = _runner(directory).execute(
        # --null: a value may hold line ends; --includes: as a commit of theirs would read it
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
        from git.cmd import Git  # here, since GitPython starts git when it is imported
    except ImportError as error:
        words = str(error).strip().splitlines() or ["no reason given"]
        raise EnvironmentProblem(
            f"GitPython: cannot start: {words[0]}. Install git 2.39 or later, on PATH"
        ) from error
    return Git
