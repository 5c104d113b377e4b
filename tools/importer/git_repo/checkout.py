# SPDX-License-Identifier: Apache-2.0
"""Update the index and the working tree after a branch has moved.

A file is written only if its content differs between the old and the new commit, and if the working
tree still has the old content. This preserves local edits, and the timestamps of unchanged files.
Each file is written under a temporary name and renamed. The update is idempotent: if it is killed,
the next run skips the files that are already updated.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.importer.errors import UserError
from tools.importer.git_repo.containment import Globs
from tools.importer.git_repo.repository import GITLINK, Repository, TreeEntry, index_info
from tools.importer.report import Report
from tools.importer.snapshot import EXECUTABLE, REGULAR, SYMLINK, blob_id

_BUSY = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase or am",
}

# The git attributes that can make a file in the working tree differ from its blob.
_CONVERTING = ("text", "crlf", "eol", "ident", "filter", "working-tree-encoding")

Change = tuple[TreeEntry | None, TreeEntry | None]
_Seen = tuple[int, int, int, int] | None


@dataclass(frozen=True)
class Step:
    """A file to write or delete. `seen` is the file's stat data when it was checked."""

    path: str
    entry: TreeEntry | None
    seen: _Seen


@dataclass(frozen=True)
class Plan:
    """The planned update of a working tree: its files and the index entries."""

    steps: tuple[Step, ...]
    index: Mapping[str, TreeEntry | None]


class Checkout:
    """The working tree of a repository, which must not be bare."""

    def __init__(self, repository: Repository) -> None:
        assert repository.work_tree
        self.repository = repository
        self.root: Path = repository.work_tree
        self._top = os.fspath(self.root)
        self._converted: set[str] = set()
        self._made: set[str] = set()

    def check_clean(self, destination: str, keep: Globs) -> None:
        """Raise UserError if there are local edits under `destination` or git is busy.

        git is busy during a merge, rebase or similar operation, and while its index is locked.
        Edits to files in `keep` do not count.
        """
        lock = self.repository.git_dir / "index.lock"
        if lock.exists():
            raise UserError(f"{lock}: another git is running. If it was killed, remove this file")
        for name, operation in _BUSY.items():
            if (self.repository.git_dir / name).exists():
                raise UserError(
                    f"{self.root}: in the middle of a {operation}. Finish or abort it, then run it again"
                )
        out = self.repository.git.run(
            "status",
            "--porcelain",
            "-z",
            "--untracked-files=all",  # list each file, because some may be in --keep
            "--no-renames",  # git then writes one path per line
            "--ignore-submodules=none",
            "--",
            destination,
        )
        paths = [os.fsdecode(line[3:]) for line in out.split(b"\0")[:-1]]
        dirty = [path for path in paths if path.removeprefix(f"{destination}/") not in keep]
        if dirty:
            raise UserError(
                f"{self.root}: local changes below {destination}, not committed: {names(dirty)}. "
                "Commit or stash them; ignored files do not count"
            )

    def plan(self, changes: Mapping[str, Change]) -> Plan:
        """Check all files before writing any. Raises a UserError naming files with local edits."""
        self._check_index(changes)
        links = self._links(changes)
        self._converted = self._find_converted(changes)
        looks = {
            path: None if links.intersection(_parents(path)) else self._look(path)
            for path in changes
        }
        entries = self._entries(looks)
        trust_mode = self._trust_mode()
        steps: list[Step] = []
        edited: list[str] = []
        for path, (old, new) in changes.items():
            if _same(entries[path], new, trust_mode):
                continue
            if not _same(entries[path], old, trust_mode):
                edited.append(path)
            elif new and (self.root / path).is_dir() and looks[path] is None:
                edited += self._strangers(path, changes)
            steps.append(Step(path, new, looks[path]))
        if edited:
            raise UserError(
                f"{self.root}: local edits that would be lost: {names(edited)}. "
                "Move them away or restore the files, then run it again"
            )
        return Plan(tuple(steps), {path: new for path, (_, new) in changes.items()})

    def follow(self, plan: Plan, report: Report) -> None:
        """Write the planned files, then the index. Raises UserError if a file has changed."""
        writes = [step for step in plan.steps if step.entry]
        with report.progress("files", len(plan.steps)) as progress:
            # Delete the deepest files first, so that a directory is empty before a file replaces
            # it.
            for step in sorted(plan.steps, key=lambda step: step.path, reverse=True):
                if step.entry is None:
                    self._delete(step)
                    progress.advance()
            with self.repository.staging() as aside:
                self._stage(writes, aside)
                plain = [step for step in writes if step.path not in self._converted]
                oids = [step.entry.oid for step in plain if step.entry]
                for step, data in zip(plain, self.repository.blobs(oids), strict=True):
                    self._write(f"{aside}/file", data, step.entry)
                    self._place(step, f"{aside}/file")
                    progress.advance()
                for step in writes:
                    if step.path in self._converted:
                        self._place(step, f"{aside}/files/{step.path}")
                        progress.advance()
        self._write_index(plan.index)

    def _check_index(self, changes: Mapping[str, Change]) -> None:
        out = self.repository.git.run("ls-files", "-s", "-t", "-z", "--", *_tops(changes))
        entries: dict[str, TreeEntry] = {}
        for line in out.split(b"\0")[:-1]:
            head, _, raw = line.partition(b"\t")
            tag, mode, oid, _ = head.decode().split(" ")
            path = os.fsdecode(raw)
            entries[path] = TreeEntry(mode, oid)
            if tag == "S" and path in changes:
                raise UserError(
                    f"{self.root}: {path} is outside the sparse checkout. Add it with "
                    "`git sparse-checkout add`, or vendor into a branch that is not checked out"
                )
        staged = [path for path, sides in changes.items() if entries.get(path) not in sides]
        if staged:
            raise UserError(
                f"{self.root}: staged changes that would be lost: {names(staged)}. "
                "Commit or unstage them, then run it again"
            )

    def _links(self, changes: Mapping[str, Change]) -> set[str]:
        """Return the symlinks among the parents of changed paths, which must not be followed.

        Raises UserError for a symlink that the update does not replace.
        """
        parents = {parent for path in changes for parent in _parents(path)}
        links = {parent for parent in parents if os.path.islink(os.path.join(self._top, parent))}
        for parent in sorted(links - changes.keys()):
            raise UserError(
                f"{self.root}: {parent} is a symbolic link, but must be a directory. "
                "Remove the link, then run it again"
            )
        return links

    def _strangers(self, path: str, changes: Mapping[str, Change]) -> list[str]:
        """Return the untracked files in a directory that will be replaced by a file."""
        return [
            inside
            for file in sorted((self.root / path).rglob("*"))
            if file.is_symlink() or not file.is_dir()
            if (inside := file.relative_to(self.root).as_posix()) not in changes
        ]

    def _look(self, path: str) -> _Seen:
        try:
            status = os.lstat(os.path.join(self._top, path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        if stat.S_ISDIR(status.st_mode):
            return None  # the caller checks each file in a directory instead
        return status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino

    def _entries(self, looks: Mapping[str, _Seen]) -> dict[str, TreeEntry | None]:
        """Return the entries that git would record for files on disk; None for a missing file."""
        entries: dict[str, TreeEntry | None] = dict.fromkeys(looks)
        for path, status in looks.items():
            if status is None:
                continue
            file = os.path.join(self._top, path)
            if stat.S_ISLNK(status[0]):
                entries[path] = TreeEntry(SYMLINK, blob_id(os.fsencode(os.readlink(file))))
            elif not stat.S_ISREG(status[0]):
                entries[path] = TreeEntry(GITLINK, "")  # differs from every file; e.g. a socket
            else:
                mode = EXECUTABLE if status[0] & stat.S_IXUSR else REGULAR
                oid = "" if path in self._converted else blob_id(_bytes(file))
                entries[path] = TreeEntry(mode, oid)
        regular = [
            path
            for path, entry in entries.items()
            if path in self._converted and entry and entry.mode in (REGULAR, EXECUTABLE)
        ]
        if regular:
            data = b"".join(_line(path) for path in regular)
            out = self.repository.git.run("hash-object", "--stdin-paths", data=data)
            for path, oid in zip(regular, out.decode().split(), strict=True):
                unhashed = entries[path]
                assert unhashed
                entries[path] = TreeEntry(unhashed.mode, oid)
        return entries

    def _find_converted(self, paths: Iterable[str]) -> set[str]:
        """Return the files that git converts on checkout (line endings, filters).

        These files are checked out by git. All others are written directly from their blobs, which
        is much faster.
        """
        data = b"".join(os.fsencode(path) + b"\0" for path in paths)
        out = self.repository.git.run("check-attr", "-z", "--stdin", *_CONVERTING, data=data)
        fields = out.split(b"\0")[:-1]
        return {
            os.fsdecode(path)
            for path, value in zip(fields[::3], fields[2::3], strict=True)
            if value not in (b"unspecified", b"unset")
        }

    def _trust_mode(self) -> bool:
        """Return whether the repository is configured to trust executable bits."""
        out = self.repository.git.run("config", "--bool", "--get", "core.fileMode", accept=(0, 1))
        return out.strip() != b"false"

    def _stage(self, writes: Iterable[Step], aside: Path) -> None:
        """Have git check out, into a staging directory, the files that it must convert."""
        entries = {step.path: step.entry for step in writes if step.path in self._converted}
        if not entries:
            return
        index = {"GIT_INDEX_FILE": os.fspath(aside / "index")}
        self.repository.git.run(
            "update-index", "-z", "--index-info", data=index_info(entries), variables=index
        )
        # --all writes all files in the temporary index, and --prefix puts them in the staging
        # directory.
        self.repository.git.run(
            "checkout-index", "--all", "--quiet", f"--prefix={aside}/files/", variables=index
        )

    def _place(self, step: Step, staged: str) -> None:
        target = os.path.join(self._top, step.path)
        parent = os.path.dirname(target)
        if parent not in self._made:
            os.makedirs(parent, exist_ok=True)
            self._made.add(parent)
        self._check_unchanged(step)
        os.replace(staged, target)

    def _write(self, file: str, data: bytes, entry: TreeEntry | None) -> None:
        assert entry
        if entry.mode == SYMLINK:
            os.symlink(data, os.fsencode(file))
            return
        # As in git, the umask removes bits from this mode.
        mode = 0o777 if entry.mode == EXECUTABLE else 0o666
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(handle, "wb", buffering=0) as out:
            view = memoryview(data)
            while view:
                view = view[out.write(view) :]

    def _delete(self, step: Step) -> None:
        self._check_unchanged(step)
        target = os.path.join(self._top, step.path)
        os.unlink(target)
        parent = os.path.dirname(target)
        while parent != self._top and not os.listdir(parent):
            os.rmdir(parent)
            parent = os.path.dirname(parent)

    def _check_unchanged(self, step: Step) -> None:
        if self._look(step.path) != step.seen:
            raise UserError(
                f"{self.root}: {step.path} was edited during the update. The commit exists; move the edit "
                "away and run it again: it continues from there"
            )

    def _write_index(self, entries: Mapping[str, TreeEntry | None]) -> None:
        git = self.repository.git
        git.run("update-index", "-z", "--index-info", data=index_info(entries))
        written = [path for path, entry in entries.items() if entry]
        if written:
            # The new index entries contain no file timestamps, so `git status` would have to read
            # every file. --refresh records the timestamps without adding entries.
            git.run("add", "--refresh", "--", *_tops(written))


def changes_between(
    old: Mapping[str, TreeEntry], new: Mapping[str, TreeEntry], destination: str
) -> dict[str, Change]:
    """Return the entries that differ between two trees at `destination`, keyed by full path."""
    return {
        f"{destination}/{path}": (old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    }


def names(paths: Iterable[str], limit: int = 20) -> str:
    """Return at most `limit` of the paths as one line for an error message."""
    every = sorted(paths)
    more = f" and {len(every) - limit} more" if len(every) > limit else ""
    return ", ".join(every[:limit]) + more


def _same(actual: TreeEntry | None, want: TreeEntry | None, trust_mode: bool) -> bool:
    if actual is None or want is None:
        return actual is want
    if trust_mode or SYMLINK in (actual.mode, want.mode):
        return actual == want
    return actual.oid == want.oid


def _bytes(file: str) -> bytes:
    with open(file, "rb", buffering=0) as source:
        return source.read()


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def _tops(paths: Iterable[str]) -> list[str]:
    """Return a list with the deepest directory common to all paths; [] if there is none."""
    common = os.path.commonpath(list(paths) or ["."])
    return [common] if common and common != "." else []


def _line(path: str) -> bytes:
    r"""Return a path as a line for --stdin-paths, quoted in git's style if necessary."""
    raw = os.fsencode(path)
    if b"\n" not in raw and not raw.startswith(b'"'):
        return raw + b"\n"
    quoted = raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + quoted + b'"\n'
