# SPDX-License-Identifier: Apache-2.0
"""Add an upstream change to the patch series, given a reference to it.

The change is merged into the patched tree, file by file. The result is an ordinary patch. The first
import of a release that contains the change drops the patch from the series.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tools.importer.engine import (
    Change,
    Labels,
    MergedBlob,
    apply_to_snapshot,
    base_files,
    merge_blobs,
    record_base,
    render_patch,
)
from tools.importer.errors import UserError
from tools.importer.git_repo.checkout import names
from tools.importer.git_repo.repository import GITLINK, Repository, TreeEntry
from tools.importer.git_repo.upstream_history import UpstreamChange
from tools.importer.selection import ours_in
from tools.importer.series import Series, SeriesError, load_series
from tools.importer.snapshot import Blob, OverlaySnapshot, Snapshot

_EXTENSION = "None: an upstream change, taken as it is"
_MARKERS = (b"<<<<<<< ", b"||||||| ", b">>>>>>> ")


@dataclass(frozen=True)
class Header:
    """Header fields set by the user; None means that the value comes from upstream's change."""

    owner: str
    subject: str | None = None
    extension: str | None = None
    test: str | None = None
    expires: str | None = None


@dataclass(frozen=True)
class Picked:
    """A patch created from an upstream change.

    `files` are the contents of the series directory; empty if the patched tree already contains the
    change.
    """

    name: str
    files: Mapping[str, bytes]
    paths: tuple[str, ...]
    left_out: tuple[str, ...]  # files that the tree's origin lacks


class PickConflictError(UserError):
    """The error raised if an upstream change conflicts with our tree.

    `files` are the merged files. Those in `conflicts` contain conflict markers.
    """

    def __init__(
        self, message: str, files: Mapping[str, Blob | None], conflicts: tuple[str, ...]
    ) -> None:
        super().__init__(message)
        self.files = files
        self.conflicts = conflicts


@dataclass(frozen=True)
class _Touched:
    """A file that an upstream change touches, before and after the change."""

    path: str
    new_path: str
    before: Blob | None
    after: Blob | None


def cherry_pick(
    repository: Repository,
    change: UpstreamChange,
    series: Series,
    snapshot: Snapshot,
    header: Header,
    *,
    resolved: Path | None = None,
) -> Picked:
    """Return the series with `change` as its last patch. `snapshot` is the unpatched tree.

    No file is written. `resolved` contains the user's versions of conflicting files. Raises
    PickConflictError for unresolved conflicts, and UserError if the change cannot be added.
    """
    _refuse_second(series, change)
    absent = [
        path
        for patch in series.patches
        for diff in patch.files
        for path in diff.paths
        if not snapshot.carries(path) and snapshot.read(path) is None
    ]
    patched = OverlaySnapshot(snapshot, apply_to_snapshot(series, snapshot, absent=absent))
    labels = Labels(change.base[:12], f"{snapshot.label} with our patches", change.commit[:12])
    changes: list[Change] = []
    conflicts: list[str] = []
    left_out: list[str] = []
    for upstreams in _touched(repository, change):
        path = ours_in(snapshot, upstreams.path)
        new_path = ours_in(snapshot, upstreams.new_path)
        if path is None or new_path is None:
            left_out.append(upstreams.new_path)
            continue
        touched = replace(upstreams, path=path, new_path=new_path)
        if touched.before is None and touched.after is None:
            left_out.append(touched.path)  # a submodule is an id and not a file
            continue
        where = _where(touched, patched)
        mine = patched.read(where)
        if mine is None and not patched.carries(where):
            left_out.append(touched.new_path)
            continue
        merged = _merge(touched, mine, labels)
        if merged.conflict:
            conflicts.append(touched.new_path)
        changes.append(Change(where, touched.new_path, mine, merged.blob))
    if not changes:
        raise UserError(
            f"{change.link}: touches only files that {snapshot.label} does not hold: "
            f"{names(left_out)}. Import from an origin with all files"
        )
    if resolved:
        changes = [_settled(each, resolved) for each in changes]
    elif conflicts:
        files = {each.new_path: each.after for each in changes}
        raise PickConflictError(
            f"{change.link}: conflicts with our tree in {names(conflicts)}. Resolve it: --to-edit DIR "
            "writes the files with markers, --from-edit DIR takes them back",
            files,
            tuple(conflicts),
        )
    changes = [each for each in changes if each.before != each.after or each.path != each.new_path]
    name = _file_name(header.subject or change.title, series)
    if not changes:
        return Picked(name, {}, (), tuple(left_out))
    tests = [path for path in left_out if "test" in path]
    data = render_patch(_header(change, header, tests).encode("utf-8", "surrogateescape"), changes)
    added = _series_files(series, snapshot, name, data)
    return Picked(name, added, tuple(each.new_path for each in changes), tuple(left_out))


def _touched(repository: Repository, change: UpstreamChange) -> Iterator[_Touched]:
    # -M reports a moved file as one change. Options such as --no-ext-diff are not needed, because
    # raw output never runs an external diff.
    out = repository.git.run(
        "diff-tree", "-r", "-z", "-M", "--raw", "--abbrev=40", "--no-commit-id",
        change.base, change.commit,
    )  # fmt: skip
    fields = iter(out.decode("utf-8", "surrogateescape").split("\0"))
    for head in fields:
        if not head:
            return
        old_mode, mode, old_oid, oid, status = head.removeprefix(":").split(" ")
        path = next(fields)
        new_path = next(fields) if status[0] in "RC" else path

        def read(mode: str, oid: str) -> Blob | None:
            known = mode not in ("000000", GITLINK)
            return repository.read(TreeEntry(mode, oid)) if known else None

        yield _Touched(path, new_path, read(old_mode, old_oid), read(mode, oid))


def _where(touched: _Touched, patched: Snapshot) -> str:
    """Return a file's path in our tree: upstream's old path, or the new one after a rename."""
    if touched.before and patched.read(touched.path) is None and patched.read(touched.new_path):
        return touched.new_path
    return touched.path if touched.before else touched.new_path


def _merge(touched: _Touched, mine: Blob | None, labels: Labels) -> MergedBlob:
    if touched.after is None and mine is None:
        return MergedBlob(None, False)
    return merge_blobs(touched.before, mine, touched.after, labels=labels)


def _settled(change: Change, resolved: Path) -> Change:
    file = resolved / change.new_path
    if not file.is_file():
        return Change(change.path, change.path, change.before, None)
    data = file.read_bytes()
    if any(line.startswith(_MARKERS) for line in data.splitlines()):
        raise UserError(f"{file}: conflict markers remain. Resolve them, then run it again")
    mode = change.after.mode if change.after else "100644"
    return Change(change.path, change.new_path, change.before, Blob(data, mode))


def _header(change: UpstreamChange, header: Header, tests: list[str]) -> str:
    upstreams = (
        f"Upstream's own, {', '.join(tests[:3])}" if tests else f"Upstream's own, {change.link}"
    )
    rows = {
        "Subject": header.subject or change.title,
        "Owner": header.owner,
        "Reason": "upstream",
        "Upstream": change.link,
        "Extension-point-considered": header.extension or _EXTENSION,
        "Test": header.test or upstreams,
        "Expires": header.expires,
        "Cherry-pick": change.commit,
    }
    return "\n".join(f"{key}: {' '.join(text.split())}" for key, text in rows.items() if text)


def _file_name(subject: str, series: Series) -> str:
    words = re.findall(r"[a-z0-9]+", subject.lower())
    stem = ""
    for word in words:
        if stem and len(stem) + len(word) > 60:
            break
        stem = f"{stem}-{word}" if stem else word[:60]
    name = f"{stem or 'cherry-pick'}.patch"
    if any(patch.name == name for patch in series.patches):
        raise UserError(f"{series.root / name}: a patch of that name exists. Use --subject")
    return name


def _refuse_second(series: Series, change: UpstreamChange) -> None:
    for patch in series.patches:
        if patch.header.get("Cherry-pick") == change.commit:
            raise UserError(
                f"{series.root / patch.name}: holds {change.commit[:12]} already. "
                "Change it with `import.py edit`, or delete it first"
            )


def _series_files(series: Series, snapshot: Snapshot, name: str, data: bytes) -> dict[str, bytes]:
    """Validate the new patch series, and return its directory's files with the recorded base."""
    index = (series.root / "series").read_bytes()
    index += b"\n" if index and not index.endswith(b"\n") else b""
    files = {patch.name: (series.root / patch.name).read_bytes() for patch in series.patches}
    files |= {"series": index + f"{name}\n".encode(), name: data}
    with tempfile.TemporaryDirectory(prefix="cherry-pick-") as scratch:
        root = Path(scratch)
        for file, content in files.items():
            (root / file).write_bytes(content)
        try:
            return {**files, **base_files(record_base(load_series(root), snapshot))}
        except SeriesError as error:
            raise UserError(str(error).replace(scratch, str(series.root))) from None
