# SPDX-License-Identifier: Apache-2.0
"""A bare repository in the cache that holds what was fetched from one git origin.

An origin on this disk lends its objects, so that its whole history is there at once and nothing is
copied. From one across a network only the wanted commit is fetched, without its history.
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

# What a hook or a person's shell may have set must not lead git elsewhere.
_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_ALLOW_PROTOCOL": ":".join(_SCHEMES),
    "GIT_ALTERNATE_OBJECT_DIRECTORIES": "",
    "GIT_NAMESPACE": "",
    "GIT_NO_REPLACE_OBJECTS": "1",  # the pin is of the real objects
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    # A server that stalls is given up after a minute.
    "GIT_HTTP_LOW_SPEED_LIMIT": "1000",
    "GIT_HTTP_LOW_SPEED_TIME": "60",
}

# Set in hooks, and no business of ours.
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

# Reading depends on nobody's settings. Fetching does: how a network is reached (proxies, certificates,
# credentials, mirrors) is the user's, and a commit id says whether the right thing came.
_NO_SETTINGS = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "0",
    "GIT_CONFIG_PARAMETERS": "",
}


class GitError(Exception):
    """git ended with a failure: `status` and its words, on one line."""

    def __init__(self, command: str, status: object, words: str) -> None:
        super().__init__(f"git {command} exited {status}: {words}")
        self.words = words


class GitMirror:
    """The cached repository of one origin; `url` as git takes it, or a path."""

    def __init__(self, url: str, cache: Cache) -> None:
        self.url = check_url(url)
        self._cache = cache
        self.local = _local(self.url)
        key = hashlib.sha256(self.url.encode()).hexdigest()[:16]
        self.directory = cache.root / "git" / f"{key}.git"
        self._lock = f"git-{key}"

    def refs(self, *patterns: str) -> dict[str, str]:
        """Ids by full name, those of annotated tags as `NAME^{}` too. Raises GitError."""
        text = self._run("ls-remote", ["--", self._source(), *patterns], seconds=_LIST_SECONDS)
        rows = (line.split("\t", 1) for line in text.splitlines() if "\t" in line)
        return {name: oid for oid, name in rows}

    def has(self, commit: str) -> bool:
        """Whether the commit, and its tree, are in the cached repository by now."""
        if not self.directory.is_dir():
            return False
        try:
            self.read("cat-file", ["-e", f"{commit}^{{tree}}"])
        except GitError:
            return False
        return True

    def fetch(self, commit: str) -> None:
        """Get one commit and keep it. Raises GitError."""
        with self._cache.locked(self._lock) as lock, self._cache.writing():
            self._prepare()
            if not self.has(commit):
                self._fetch(commit, lock)
            # A ref of ours: gc of this repository must not take it.
            self.read("update-ref", [f"refs/pinned/{commit}", commit])

    def expand(self, short: str) -> str | None:
        """The commit that a short id stands for, in an origin on this disk."""
        if self.local is None:
            return None
        with self._cache.locked(self._lock), self._cache.writing():
            self._prepare()
        try:
            found = self.read("rev-parse", ["--verify", "--quiet", f"{short}^{{commit}}"])
        except GitError:
            return None
        return found.decode("ascii").strip()

    def read(self, command: str, arguments: list[str]) -> bytes:
        """Run a command on the cached repository. Raises GitError."""
        git = self.git()
        status, out, words = git.execute(
            ["git", command, *arguments],
            with_extended_output=True,
            with_exceptions=False,
            stdout_as_string=False,
            strip_newline_in_stdout=False,
        )
        if status:
            raise GitError(command, status, _one_line(words))
        return bytes(out)

    def git(self) -> Git:
        """GitPython's git on the cached repository, with nobody's settings."""
        git = _git_class()(os.fspath(self.directory))
        place = {
            "GIT_DIR": os.fspath(self.directory),
            "GIT_COMMON_DIR": os.fspath(self.directory),
            "GIT_OBJECT_DIRECTORY": os.fspath(self.directory / "objects"),
        }
        git.update_environment(**_ENVIRONMENT, **_NO_SETTINGS, **place)
        return git

    def _prepare(self) -> None:
        """Make the repository where there is none, whole or not at all, and free it of dead locks."""
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
            if shallow.is_file():  # where its history ends, ours does
                _replace(self.directory / "shallow", shallow.read_bytes())
        # We hold the lock, and so does any git that a killed process of ours left: these are dead.
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
            # A plain web server knows only whole histories.
            self._run("fetch", [*options, *ends], seconds=_FETCH_SECONDS, lock=lock)

    def _run(self, command: str, arguments: list[str], *, seconds: int, lock: int = -1) -> str:
        with self._cache.scratch() as scratch:
            environment = {
                **self._trust(scratch),
                # No repository around the cache has a say.
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
        """Settings for reading an origin on this disk: only that another user may own it.

        git asks its user to vouch for such a repository; naming it as the origin does.
        """
        if self.local is None:
            return {}
        settings = scratch / "config"
        places = [_quoted(place) for place in (self.local, self.local / ".git")]
        lines = "".join(f'\tdirectory = "{place}"\n' for place in places)
        settings.write_text(f"[safe]\n{lines}", encoding="utf-8")
        return {**_NO_SETTINGS, "GIT_CONFIG_GLOBAL": os.fspath(settings)}

    def _source(self) -> str:
        return self.url if self.local is None else os.fspath(self.local)


def check_url(url: str) -> str:
    """Return a git origin's address, without `git+`. Raises UserError."""
    plain = url.removeprefix("git+")
    parts = urlsplit(plain)
    if "://" not in plain and not Path(plain).is_absolute():
        raise UserError(
            f"'{url}' is no address of a git repository. Write git+https://..., or a path"
        )
    if parts.scheme and parts.scheme not in _SCHEMES:
        raise UserError(
            f"'{parts.scheme}' addresses are not read. Use one of {', '.join(_SCHEMES)}"
        )
    if parts.password is not None:
        raise UserError(
            "the git address has a password in it, which the pin would publish. Leave it out, and let"
            " git's credential helper give it"
        )
    return plain


def is_repository(directory: Path) -> bool:
    """Whether a directory is a git repository: bare, or the top of a working tree."""
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
    """The directory of a local repository's objects, also for a linked worktree."""
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
    # Named outright, git does not ask who owns it.
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
    place = [] if git_dir is None else [f"--git-dir={git_dir}"]
    git = _git_class()(os.fspath(cwd))
    status, out, words = git.execute(
        # coreutils' timeout ends git also when this process was killed.
        [*_UNSET, "timeout", "-k", "5", str(seconds), "git", *place, command, *arguments],
        with_extended_output=True,
        with_exceptions=False,
        env={**_ENVIRONMENT, **environment},
        pass_fds=(lock,) if lock >= 0 else (),
    )
    if status in (124, 137):
        raise GitError(command, status, f"no answer in {seconds} s")
    if status:
        raise GitError(command, status, _one_line(words))
    return str(out)


def _git_class() -> type[Git]:
    for tool in ("git", "timeout"):
        if shutil.which(tool) is None:
            raise EnvironmentProblem(f"{tool}: not found on PATH. Install it")
    # Late: the import itself fails on a machine without git.
    from git.cmd import Git

    return Git


def _one_line(words: object) -> str:
    text = words.decode("utf-8", "replace") if isinstance(words, bytes) else str(words)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(lines[:3])[:400] or "no message"


def _quoted(path: Path) -> str:
    return os.fspath(path).replace("\\", "\\\\").replace('"', '\\"')


def _replace(file: Path, data: bytes) -> None:
    """Write a file whole; readers of the repository hold no lock."""
    if not file.is_file() or file.read_bytes() != data:
        new = file.with_name(f"{file.name}.new")
        new.write_bytes(data)
        os.replace(new, file)
