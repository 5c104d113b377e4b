# SPDX-License-Identifier: Apache-2.0
"""Find a change in the history of upstream's repository by commit, pull request or link.

A local repository is read in place. For a remote one, the cache contains a bare partial clone with
commits only, and git fetches the few trees and files of a change on demand.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tools.importer.errors import EnvironmentProblem, UserError
from tools.importer.git_repo.client import Client
from tools.importer.git_repo.repository import Repository
from tools.importer.report import Report

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

_MAIN = ("refs/remotes/origin/HEAD", "refs/remotes/origin/main", "refs/heads/main", "HEAD")
_PULL = re.compile(r"(?:(https?://[^\s?#]+?)/pull/|#?)(\d+)(?:[/?#].*)?")
_COMMIT = re.compile(r"(?:(https?://[^\s?#]+?)/commit/)?([0-9a-fA-F]{4,40})(?:[?#].*)?")


@dataclass(frozen=True)
class UpstreamChange:
    """A change: the difference between the tree-ish `base` and `commit`.

    `link` is its web page. `pull` is the number of its pull request, if known.
    """

    base: str
    commit: str
    title: str
    link: str
    pull: int | None = None


@dataclass(frozen=True)
class Arrival:
    """A new commit on upstream's branch. A merge counts as one commit."""

    commit: str
    title: str


class UpstreamHistory:
    """Upstream's repository at `url`, or a partial clone of it, which fetches objects on demand."""

    def __init__(self, repository: Repository, url: str, *, fetches: bool, report: Report) -> None:
        self.repository = repository
        self.url = url
        self._fetches = fetches
        self._report = report

    def find(self, reference: str) -> UpstreamChange:
        """Return the change for `reference`: a commit id or prefix, a pull request, or a link.

        Raises UserError if it is unknown or ambiguous.
        """
        pull, commit = _PULL.fullmatch(reference), _COMMIT.fullmatch(reference)
        if self._fetches:
            self._fetch("+HEAD:refs/heads/main")
        if pull and not (commit and len(commit[2]) == 40):
            merged = self._pull(int(pull[2]), pull[1])
            if merged:
                return merged
        if commit:
            return self._commit(commit[2].lower(), commit[1])
        if pull:
            raise UserError(
                f"{self.url}: no pull request {pull[2]}: no commit says so and there is no "
                f"refs/pull/{pull[2]}/head. Give the commit"
            )
        raise UserError(
            f"'{reference}' names no change. Give a commit, a pull request's number or its address"
        )

    def between(self, old: str, new: str, ref: str) -> list[Arrival]:
        """Return the commits of the branch `ref` after `old` and up to `new`, newest first.

        Raises UserError if upstream has rewritten the branch and its history no longer contains
        `old`.
        """
        if self._fetches:
            self._fetch(f"+{ref}:{ref}", optional=True)
        repository = self.repository
        known = repository.find(old) and repository.find(new)
        status = 1
        if known:
            status, _, _ = repository.git.attempt("merge-base", "--is-ancestor", old, new)
        if status:
            raise UserError(
                f"{self.url}: {old[:12]}, the last import, is not in the history of {new[:12]}: the "
                "branch was rewritten. Leave --since out, and the commits are not listed"
            )
        out = self._log("--first-parent", "--format=%H%x00%s", f"{old}..{new}", "--")
        rows = (line.partition("\0") for line in out.splitlines())
        return [Arrival(commit, title) for commit, _, title in rows]

    def _commit(self, prefix: str, web: str | None) -> UpstreamChange:
        full = prefix if len(prefix) == 40 else self._expand(prefix)
        if self.repository.find(full) is None and self._fetches:
            self._fetch(full)
        if self.repository.find(full) is None:
            raise UserError(f"{self.url}: no commit {full}. Fetch it there, or name another origin")
        web = web or self._web()
        return self._change(full, f"{web}/commit/{full}" if web else f"commit {full}")

    def _expand(self, prefix: str) -> str:
        # --disambiguate lists all kinds of objects. Keep only commits.
        out = self.repository.git.run("rev-parse", f"--disambiguate={prefix}")
        objects = self.repository.git.run("cat-file", "--batch-check", data=out).decode()
        commits = [line.split()[0] for line in objects.splitlines() if line.split()[1] == "commit"]
        if not commits:
            raise UserError(
                f"{self.url}: no commit begins with {prefix}. Fetch it there, or name another origin"
            )
        if len(commits) > 1:
            raise UserError(
                f"{self.url}: {prefix} begins {len(commits)} commits: "
                f"{', '.join(commit[:16] for commit in commits[:4])}. Give more of it"
            )
        return commits[0]

    def _pull(self, number: int, web: str | None) -> UpstreamChange | None:
        web = web or self._web()
        link = f"{web}/pull/{number}" if web else f"pull request {number}"
        mains = self._mains()
        landed = self._landed(number, mains)
        if landed:
            return self._change(landed, link, pull=number)
        ref = f"refs/pull/{number}/head"
        if self._fetches and self.repository.find(ref) is None:
            self._fetch(f"+{ref}:{ref}", optional=True)
        head = self.repository.find(ref)
        if head is None:
            return None
        status, out = 1, b""
        if mains:
            status, out, _ = self.repository.git.attempt("merge-base", mains[0], head)
        if status:
            raise UserError(f"{self.url}: {ref} has no history in common with main. Give a commit")
        base = out.decode().strip()
        if base == head:
            raise UserError(f"{self.url}: {ref} is in main and changes nothing. Give the commit")
        # The first commit usually has the best title; later ones only respond to reviews.
        first = self._log("--reverse", "--format=%s", f"{base}..{head}", "--").splitlines()[0]
        return UpstreamChange(base, head, _title(first), link, number)

    def _landed(self, number: int, mains: Sequence[str]) -> str | None:
        """Return the newest commit on main that merged the pull request; None if there is none.

        All merge methods are recognized: ghstack's and pytorch's bots write `Pull Request
        resolved:`, a squash merge ends the title with `(#77)`, and a merge commit begins with
        `Merge pull request #77`. A commit that mentions the number elsewhere is a different change.
        """
        if not mains:
            return None
        forms = (
            rf"^Pull Request resolved: .*/pull/{number}\s*$",
            rf"\A[^\n]*\(#{number}\)\s*$",
            rf"\AMerge pull request #{number} from ",
        )
        out = self._log(
            "--extended-regexp",
            # `git log --grep` matches single lines, so this only selects candidates.
            f"--grep=(^Pull Request resolved: .*/pull/|\\(#|^Merge pull request #){number}",
            "--format=%H%x00%B%x01",
            *mains,
            "--",
        )
        for row in out.split("\1"):
            commit, _, message = row.strip().partition("\0")
            if message.startswith("Revert "):
                continue
            if any(re.search(form, message, re.MULTILINE) for form in forms):
                return commit
        return None

    def _change(self, commit: str, link: str, pull: int | None = None) -> UpstreamChange:
        # The change made by a merge commit is the difference from its first parent.
        base = self.repository.find(f"{commit}^") or EMPTY_TREE
        message = self._log("--max-count=1", "--format=%B", commit, "--").strip()
        subject, _, rest = message.partition("\n")
        if subject.startswith("Merge pull request #") and rest.strip():
            # GitHub writes the title of the pull request below the first line.
            subject = rest.strip().splitlines()[0]
        return UpstreamChange(base, commit, _title(subject), link, pull)

    def _log(self, *arguments: str) -> str:
        return self.repository.git.run("log", *arguments).decode("utf-8", "replace")

    def _mains(self) -> list[str]:
        heads = (self.repository.find(name) for name in _MAIN)
        return list(dict.fromkeys(commit for commit in heads if commit))[:1]

    def _web(self) -> str | None:
        return self.url.removesuffix(".git") if self.url.startswith(("http:", "https:")) else None

    def _fetch(self, refspec: str, *, optional: bool = False) -> None:
        with self._report.progress(f"Fetching from {self.url}"):
            status, _, stderr = self.repository.git.attempt(
                "fetch",
                "--quiet",
                "--no-tags",  # with tags, git would also fetch hundreds of release branches
                "--no-write-fetch-head",
                "--filter=tree:0",  # fetch commits; trees and files are fetched when read
                "origin",
                refspec,
            )
        if (
            status
            and not optional
            and "find remote ref" not in stderr
            and "not our ref" not in stderr
        ):
            raise EnvironmentProblem(f"git fetch {self.url}: exit status {status}: {stderr[:200]}")


def open_history(url: str, cache: Path, report: Report) -> UpstreamHistory:
    """Open upstream's local repository in place, or a copy of a remote one in `cache`.

    Raises UserError if `url` is neither a local directory nor a URL.
    """
    plain = url.removeprefix("git+")
    local = _local(plain)
    if local:
        return UpstreamHistory(Repository.open(local), plain, fetches=False, report=report)
    if "://" not in plain:
        raise UserError(f"{plain}: no such directory. Give upstream's repository with --origin")
    directory = cache / f"history-{hashlib.sha256(plain.encode()).hexdigest()[:16]}.git"
    directory.mkdir(parents=True, exist_ok=True)
    # Both steps are idempotent, so the next run repeats them if this one is killed.
    Client(directory, {"GIT_DIR": str(directory)}).run("init", "--bare", "--quiet", "--template=")
    repository = Repository(directory, None, network=True)
    repository.git.run("config", "remote.origin.url", plain)
    return UpstreamHistory(repository, plain, fetches=True, report=report)


def _local(url: str) -> Path | None:
    parts = urlsplit(url)
    if parts.scheme == "file":
        path = Path(unquote(parts.path))
        return path if path.is_dir() and not parts.netloc else None
    return Path(url) if "://" not in url and Path(url).is_dir() else None


def _title(subject: str) -> str:
    """Return a subject without the pull request number that GitHub appends when it merges."""
    return re.sub(r"\s*\(#\d+\)\s*$", "", subject).strip()
