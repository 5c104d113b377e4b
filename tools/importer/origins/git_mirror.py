# SPDX-License-Identifier: Apache-2.0
"""A bare repository in the cache that holds objects from one git origin.

A local origin is used as an alternate, so its entire history is available without a copy. From a
remote origin, only the requested commit is fetched, without its history.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.origins.cache import Cache

if TYPE_CHECKING:
    from git.cmd import Git

_SCHEMES = ("https", "http", "ssh", "git", "file")
_LIST_SECONDS = 60
_FETCH_SECONDS = 3600

# Variables set by a hook or a shell must not point git to a different repository.
_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_ALLOW_PROTOCOL": ":".join(_SCHEMES),
    "GIT_ALTERNATE_OBJECT_DIRECTORIES": "",
    "GIT_NAMESPACE": "",
    "GIT_NO_REPLACE_OBJECTS": "1",  # pins refer to original objects, not to those in refs/replace
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # Abort if the server stalls for a minute.
    "GIT_HTTP_LOW_SPEED_LIMIT": "1000",
    "GIT_HTTP_LOW_SPEED_TIME": "60",
}

# git sets these variables for hooks, but git must not use the hook's repository here.
_UNSET = (
    "env",
    *(
        word
        for name in (
            "GIT_DIR",
            "GIT_COMMON_DIR",
            "GIT_INDEX_FILE",
            "GIT_OBJECT_DIRECTORY",
            "GIT_WORK_TREE",
        )
        for word in ("-u", name)
    ),
)

# Reading must not depend on the user's configuration. Fetching may, because proxies, certificates,
# credentials and mirrors are the user's choice. The commit id proves that the fetched objects are
# the right ones.
_NO_SETTINGS = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "0",
    "GIT_CONFIG_PARAMETERS": "",
}


class GitError(Exception):
    """Raised if a git command fails. The one-line message contains its exit status and output."""

    def __init__(self, command: str, status: object, stderr: str) -> None:
        super().__init__(f"git {command} exited {status}: {stderr}")
        self.words = stderr


class GitMirror:
    """The cached repository for one origin. `url` is a git URL or a path."""

    def __init__(self, url: str, cache: Cache) -> None:
        self.url = check_url(url)
        self._cache = cache
        self.local = _local(self.url)
        key = hashlib.sha256(self.url.encode()).hexdigest()[:16]
        self.directory = cache.root / "git" / f"{key}.git"
        self._lock = f"git-{key}"

    def refs(self, *patterns: str) -> dict[str, str]:
        """Return object ids by full ref name. Annotated tags also appear as `NAME^{}`.

        Raises GitError if git fails.
        """
        text = self._run("ls-remote", ["--", self._source(), *patterns], seconds=_LIST_SECONDS)
        rows = (line.split("\t", 1) for line in text.splitlines() if "\t" in line)
        return {name: oid for oid, name in rows}

    def has(self, commit: str) -> bool:
        """Return whether the commit and its tree are in the cached repository."""
        if not self.directory.is_dir():
            return False
        try:
            self.read("cat-file", ["-e", f"{commit}^{{tree}}"])
        except GitError:
            return False
        return True

    def fetch(self, commit: str) -> None:
        """Fetch a commit and protect it from gc. Raises GitError if git fails."""
        with self._cache.locked(self._lock) as lock, self._cache.writing():
            self._prepare()
            if not self.has(commit):
                self._fetch(commit, lock)
            # A ref protects the commit from gc in this repository.
            self.read("update-ref", [f"refs/pinned/{commit}", commit])

    def expand(self, short: str) -> str | None:
        """Return the full id of an abbreviated commit; None if it is unknown or ambiguous.

        If the origin is remote, the result is always None.
        """
        if self.local is None:
            return None
        with self._cache.locked(self._lock), self._cache.writing():
            self._prepare()
        try:
            output = self.read("rev-parse", ["--verify", "--quiet", f"{short}^{{commit}}"])
        except GitError:
            return None
        return output.decode("ascii").strip()

    def read(self, command: str, arguments: list[str]) -> bytes:
        """Run git in the cached repository and return its output. Raises GitError if git fails."""
        git = self.git()
        status, out, stderr = git.execute(
            ["git", command, *arguments],
            with_extended_output=True,
            with_exceptions=False,
            stdout_as_string=False,
            strip_newline_in_stdout=False,
        )
        if status:
            raise GitError(command, status, _one_line(stderr))
        return bytes(out)

    def git(self) -> Git:
        """Return a GitPython `Git` for the cached repository, without user configuration."""
        git = _git_class()(os.fspath(self.directory))
        directories = {
            "GIT_DIR": os.fspath(self.directory),
            "GIT_COMMON_DIR": os.fspath(self.directory),
            "GIT_OBJECT_DIRECTORY": os.fspath(self.directory / "objects"),
        }
        git.update_environment(**_ENVIRONMENT, **_NO_SETTINGS, **directories)
        return git

    def _prepare(self) -> None:
        """Create the repository atomically if it is missing. Stale lock files are deleted."""
        if not self.directory.is_dir():
            with self._cache.scratch() as scratch:
                new = scratch / "new.git"
                _run_git(
                    "init", ["--bare", "--quiet", "--template=", os.fspath(new)], cwd=scratch,
                    environment=_NO_SETTINGS, seconds=_LIST_SECONDS,
                )  # fmt: skip
                self.directory.parent.mkdir(parents=True, exist_ok=True)
                os.replace(new, self.directory)
        if self.local is not None:
            objects = _objects(self.local)
            alternates = self.directory / "objects" / "info" / "alternates"
            alternates.parent.mkdir(exist_ok=True)
            _replace(alternates, os.fsencode(objects) + b"\n")
            shallow = objects.parent / "shallow"
            if shallow.is_file():  # the origin is shallow: our history must end at the same commits
                _replace(self.directory / "shallow", shallow.read_bytes())
        # This process holds the cache's lock, so any git lock file is a leftover of a killed
        # process.
        for dead in self.directory.rglob("*.lock"):
            dead.unlink(missing_ok=True)

    def _fetch(self, commit: str, lock: int) -> None:
        options = [
            "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--no-auto-maintenance",
            "--quiet", "--no-progress",
        ]  # fmt: skip
        ends = ["--", self._source(), f"+{commit}:refs/pinned/{commit}"]
        try:
            self._run("fetch", [*options, "--depth=1", *ends], seconds=_FETCH_SECONDS, lock=lock)
        except GitError as error:
            if "shallow" not in error.words:
                raise
            # A plain web server (the dumb HTTP protocol) cannot serve a shallow clone, so fetch the
            # full history.
            self._run("fetch", [*options, *ends], seconds=_FETCH_SECONDS, lock=lock)

    def _run(self, command: str, arguments: list[str], *, seconds: int, lock: int = -1) -> str:
        with self._cache.scratch() as scratch:
            environment = {
                **self._trust(scratch),
                # Do not search for a repository in the cache's parent directories.
                "GIT_CEILING_DIRECTORIES": os.fspath(scratch.parent),
            }
            return _run_git(
                command,
                arguments,
                cwd=scratch,
                git_dir=os.fspath(self.directory) if command == "fetch" else None,
                environment=environment,
                seconds=seconds,
                lock=lock,
            )

    def _trust(self, scratch: Path) -> Mapping[str, str]:
        """Return git settings that allow git to read another user's local repository.

        git otherwise requires safe.directory. By specifying the repository as the origin, the user
        has consented.
        """
        if self.local is None:
            return {}
        settings = scratch / "config"
        places = [_quoted(path) for path in (self.local, self.local / ".git")]
        lines = "".join(f'\tdirectory = "{path}"\n' for path in places)
        settings.write_text(f"[safe]\n{lines}", encoding="utf-8")
        return {**_NO_SETTINGS, "GIT_CONFIG_GLOBAL": os.fspath(settings)}

    def _source(self) -> str:
        return self.url if self.local is None else os.fspath(self.local)


def check_url(url: str) -> str:
    """Return a git origin's URL without `git+`. Raises UserError if the URL is not supported."""
    plain = url.removeprefix("git+")
    parts = urlsplit(plain)
    if "://" not in plain and not Path(plain).is_absolute():
        raise UserError(
            f"'{url}' is no address of a git repository. Write git+https://..., or a path"
        )
    if parts.scheme and parts.scheme not in _SCHEMES:
        raise UserError(
            f"'{parts.scheme}' addresses are not supported. Use one of {', '.join(_SCHEMES)}"
        )
    if parts.password is not None:
        raise UserError(
            "the git address has a password in it, which the pin would publish. Leave it out, and let"
            " git's credential helper give it"
        )
    return plain


def is_repository(directory: Path) -> bool:
    """Return whether `directory` is a bare git repository, or the top level of a working tree."""
    return (directory / ".git").exists() or (
        (directory / "HEAD").is_file() and (directory / "objects").is_dir()
    )


def _local(url: str) -> Path | None:
    parts = urlsplit(url)
    if "://" in url and parts.scheme != "file":
        return None
    path = Path(unquote(parts.path) if parts.scheme == "file" else url)
    if not is_repository(path):
        raise UserError(f"{path}: not a git repository. Name one with --origin")
    return path


def _objects(repository: Path) -> Path:
    """Return the object directory of a local repository or of a linked worktree."""
    text = _run_git(
        "rev-parse",
        ["--git-common-dir"],
        cwd=repository,
        git_dir=_git_dir(repository),
        environment=_NO_SETTINGS,
        seconds=_LIST_SECONDS,
    )
    return (repository / text.strip() / "objects").resolve()


def _git_dir(repository: Path) -> str:
    # With --git-dir, git does not check who owns the repository.
    dot_git = repository / ".git"
    if dot_git.is_file():
        target = re.match(r"gitdir: (.*)", dot_git.read_text(encoding="utf-8"))
        if target is None:
            raise UserError(f"{dot_git}: not a file of git's. Name another repository")
        return os.fspath(repository / target[1])
    return os.fspath(dot_git if dot_git.is_dir() else repository)


def _run_git(
    command: str,
    arguments: list[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    seconds: int,
    git_dir: str | None = None,
    lock: int = -1,
) -> str:
    location = [] if git_dir is None else [f"--git-dir={git_dir}"]
    git = _git_class()(os.fspath(cwd))
    status, out, stderr = git.execute(
        # coreutils' `timeout` terminates git even if this process is killed.
        [*_UNSET, "timeout", "-k", "5", str(seconds), "git", *location, command, *arguments],
        with_extended_output=True,
        with_exceptions=False,
        env={**_ENVIRONMENT, **environment},
        pass_fds=(lock,) if lock >= 0 else (),
    )
    if status in (124, 137):
        raise GitError(command, status, f"no answer in {seconds} s")
    if status:
        raise GitError(command, status, _one_line(stderr))
    return str(out)


def _git_class() -> type[Git]:
    for tool in ("git", "timeout"):
        if shutil.which(tool) is None:
            raise EnvironmentProblem(f"{tool}: not found on PATH. Install it")
    # Imported lazily, because the import fails on a machine without git.
    from git.cmd import Git

    return Git


def _one_line(stderr: object) -> str:
    text = stderr.decode("utf-8", "replace") if isinstance(stderr, bytes) else str(stderr)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(lines[:3])[:400] or "no message"


def _quoted(path: Path) -> str:
    return os.fspath(path).replace("\\", "\\\\").replace('"', '\\"')


def _replace(file: Path, data: bytes) -> None:
    """Replace a file atomically, because readers of the repository hold no lock."""
    if not file.is_file() or file.read_bytes() != data:
        new = file.with_name(f"{file.name}.new")
        new.write_bytes(data)
        os.replace(new, file)
