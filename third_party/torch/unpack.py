# SPDX-License-Identifier: Apache-2.0
"""Turn the pinned wheel into the patched tree of `@torch`, using only the standard library.

    unpack.py --wheel W --pin pin.json --patches DIR --seam DIR --out DIR [--wheel-only]

The repository rule runs this script. The script writes DIR/site (torch, functorch, torchgen and the
distribution's metadata) and DIR/SOURCE_INFO.json, where DIR is the value of --out. The seam is a
set of modules with hooks, which are added to torch. Every step checks its input, and the hash of
the tree must equal the pinned hash, so `@torch` always consists of the same bytes. The importer
computes the pinned hash with the same functions: `build_tree` writes the tree to disk;
`patched_tree` and `tree_hash_of` do not.

With --wheel-only, the pin contains only the hash of the wheel, which, together with the patches,
determines the tree. The CUDA wheel is pinned in this way, so that editing a patch does not require
a download of half a gigabyte to update the pin.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import csv
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

if not __package__:  # If run as a script, add the workspace's root to the import path.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tools.importer import (
    ApplyError,
    Entry,
    Series,
    SeriesError,
    UserError,
    apply_series,
    entry_of,
    file_digest,
    hash_entries,
    load_series,
)

SEAM = "torch/_utils_internal.py"
SEAM_UPSTREAM = "torch/_utils_internal_upstream.py"
SOURCE_HASH = "torch/src_hash.txt"
VERSION = "torch/version.py"
# The file in a patch series' directory that records the release to which the series applies.
BASE = "base.json"

# Files that no PAR uses, 136 of 754 MB: upstream's compiled C++ tests with their models, all
# programs except the shared-memory manager, and headers in lib/. These headers are internal to
# libshm, whose interface is in include/. If they remained, a PAR would treat lib/ as a directory
# that only compilers need, and unpack it separately.
_DROPPED = re.compile(r"torch/(test/|bin/(?!torch_shm_manager$)|lib/.*\.h$)")

_CHUNK = 1 << 20


class UnpackError(UserError):
    """Raised if an input does not match the pin. The message gives the next step."""


@dataclass(frozen=True)
class Pin:
    """The contents of pin.json. `file` is its path, for error messages.

    `tree_hash` is empty if the pin contains only the wheel's hash.
    """

    tag: str
    commit: str
    version: str
    wheel_sha256: str
    tree_hash: str
    file: str = "the pin"


@dataclass(frozen=True)
class Member:
    """A file in the wheel or the tree. `entry` contains its mode and sha256; `size` is in bytes."""

    entry: Entry
    size: int


@dataclass(frozen=True)
class TreeBuild:
    """A finished tree: its hash, its files, and the digest of its patch series."""

    tree_hash: str
    series_digest: str
    version: str
    commit: str
    members: Mapping[str, Member]


def read_pin(path: Path, *, wheel_only: bool = False) -> Pin:
    """Read pin.json, without the tree's hash if `wheel_only` is true.

    Raises an UnpackError if a key is missing.
    """
    data = json.loads(path.read_text(encoding="utf-8"))
    try:
        return Pin(
            data["tag"],
            data["commit"],
            data["version"],
            data["wheel"]["sha256"],
            "" if wheel_only else data["tree_hash"],
            str(path),
        )
    except KeyError as error:
        raise UnpackError(
            f"{path}: key {error} is missing. See third_party/torch/README.md"
        ) from None


def unpack(
    wheel: Path,
    pin_file: Path,
    patches: Path,
    seam: Path,
    out: Path,
    *,
    wheel_only: bool = False,
) -> None:
    """Write `out`/site and `out`/SOURCE_INFO.json.

    Raises an UnpackError if an input or the tree does not match the pin, a SeriesError if the patch
    series is invalid, and an ApplyError if a patch does not apply.
    """
    pin = read_pin(pin_file, wheel_only=wheel_only)
    build = build_tree(wheel, pin, patches, seam, out)
    if not wheel_only and build.tree_hash != pin.tree_hash:
        raise UnpackError(
            f"{pin_file}: tree_hash is {pin.tree_hash}, the patched tree hashes to {build.tree_hash}. "
            "If the wheel, the series or the seam was changed on purpose, write the new hash there"
        )
    info = {
        "tag": pin.tag,
        "commit": pin.commit,
        "version": pin.version,
        "series": build.series_digest,
        "tree": build.tree_hash,
    }
    (out / "SOURCE_INFO.json").write_text(json.dumps(info, indent=2) + "\n", encoding="utf-8")


def build_tree(wheel: Path, pin: Pin, patches: Path, seam: Path, out: Path) -> TreeBuild:
    """Write `out`/site from the wheel of `pin`, ignoring the pin's tree_hash.

    Raises the same errors as `unpack`.
    """
    series = load_series(patches)
    digest = file_digest(wheel)
    if digest != pin.wheel_sha256:
        raise UnpackError(
            f"{wheel.name}: sha256 is {digest}, {pin.file} wants {pin.wheel_sha256}. "
            "Get the wheel for that platform and build, or update the pin"
        )
    site = _Site(out / "site")
    shutil.rmtree(site.root, ignore_errors=True)
    site.extract(wheel)
    return site.finish(series, seam, pin)


def patched_tree(
    wheel: Path, patches: Path, seam: Path, *, members: Mapping[str, Member] | None = None
) -> TreeBuild:
    """Return the result of `build_tree` without writing the tree, which saves time and 600 MB.

    `members` contains all files in the wheel if the caller has already read the wheel. Raises the
    same errors as `build_tree`.
    """
    series = load_series(patches)
    paths = {SEAM, VERSION}
    for patch in series.patches:
        for diff in patch.files:
            paths.update(diff.paths)
    with tempfile.TemporaryDirectory(prefix="torch-tree-") as scratch:
        site = _Site(Path(scratch))
        site.extract(wheel, selected=paths, known=members)
        return site.finish(series, seam)


def tree_hash_of(wheel: Path, patches: Path, seam: Path) -> str:
    """Return the hash of the tree that `build_tree` would write, without writing the tree."""
    return patched_tree(wheel, patches, seam).tree_hash


def is_dropped(path: str) -> bool:
    """Return whether the tree omits a file of the wheel."""
    return _DROPPED.match(path) is not None


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="unpack", description=__doc__.split("\n", 1)[0])
    for name in ("wheel", "pin", "patches", "seam", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--wheel-only", action="store_true")
    args = parser.parse_args(argv)
    try:
        unpack(
            args.wheel,
            args.pin,
            args.patches,
            args.seam,
            args.out,
            wheel_only=args.wheel_only,
        )
    except _EXPECTED as error:
        print(error, file=sys.stderr)
        return 1
    return 0


_EXPECTED = (ApplyError, OSError, SeriesError, UnpackError, zipfile.BadZipFile)


class _Site:
    """An unfinished tree. `members` describes all its files; some may be missing from `root`.

    The steps of `finish` need only some of the files on disk. The tree's hash is computed from the
    hashes in `members`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.members: dict[str, Member] = {}

    def extract(
        self,
        wheel: Path,
        *,
        selected: set[str] | None = None,
        known: Mapping[str, Member] | None = None,
    ) -> None:
        """Read all files in the wheel, and write all of them or only those in `selected` to disk.

        Also write files and create directories that conflict with a selected path, so that patches
        fail for the same reasons as in the whole tree. `known` contains files that have been read.
        """
        above = {str(parent) for path in selected or () for parent in PurePosixPath(path).parents}
        with zipfile.ZipFile(wheel) as archive:
            for item in archive.infolist():
                path = item.filename
                if item.is_dir() or is_dropped(path):
                    continue
                _check_plain(path, wheel)
                target = self.root / path
                here = selected is None or path in selected or path in above
                if selected is not None:
                    for parent in PurePosixPath(path).parents:
                        if str(parent) in selected:
                            (self.root / parent).mkdir(parents=True, exist_ok=True)
                if here or known is None or path not in known:
                    self.members[path] = _copy(archive, item, target if here else None)
                else:
                    self.members[path] = known[path]

    def finish(self, series: Series, seam: Path, pin: Pin | None = None) -> TreeBuild:
        """Patch the tree, add the seam, and update the cache key and RECORD.

        Return a description of the finished tree, including its hash.
        """
        text = (self.root / VERSION).read_text(encoding="utf-8")
        version, commit = (_stated(text, name) for name in ("__version__", "git_version"))
        if pin is not None:
            _check_version("__version__", version, pin.version, pin)
            _check_version("git_version", commit, pin.commit, pin)
        for path in apply_series(series, self.root, absent=self.absent(series)):
            self.update(path)
        self.place_seam(seam)
        self.stamp_sources(version)
        self.write_record()
        return TreeBuild(self.hash(), series.digest, version, commit, self.members)

    def absent(self, series: Series) -> frozenset[str]:
        """Return the paths that patches change and that are not in wheels (tests, C++ sources).

        base.json in the series' directory records the paths, so that a path that is missing by
        mistake is an error.
        """
        file = series.root / BASE
        if not file.is_file():
            return frozenset()
        try:
            paths = frozenset(json.loads(file.read_text(encoding="utf-8"))["absent"])
        except (ValueError, KeyError, TypeError) as error:
            raise UnpackError(f"{file}: {error!r}. Restore it from version control") from None
        for path in sorted(paths & self.members.keys()):
            raise UnpackError(
                f"{file}: says that '{path}' is absent from the wheel, but it exists. "
                "Record the base again: `tools/import.py refresh --base`"
            )
        return paths

    def hash(self) -> str:
        return hash_entries({path: member.entry for path, member in self.members.items()})

    def update(self, path: str) -> None:
        """Update `members` for a file that was written or removed after the wheel was read."""
        full = self.root / path
        if full.is_symlink() or full.exists():
            self.members[path] = Member(entry_of(self.root, path), full.lstat().st_size)
        else:
            self.members.pop(path, None)

    def place_seam(self, seam: Path) -> None:
        """Add the seam, a set of modules with hooks, to torch.

        One of them replaces a module that upstream intends to be replaceable, and imports the
        original, which is renamed. All others are new. Raises an UnpackError if upstream has a
        file of the same name.
        """
        (self.root / SEAM).rename(self.root / SEAM_UPSTREAM)
        self.update(SEAM_UPSTREAM)
        for source in sorted(seam.rglob("*.py")):
            path = f"torch/{source.relative_to(seam).as_posix()}"
            if path in self.members and path != SEAM:
                raise UnpackError(
                    f"{source}: upstream has a file {path} as well. Rename the seam's module"
                )
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, self.root / path)
            (self.root / path).chmod(0o644)
            self.update(path)

    def stamp_sources(self, version: str) -> None:
        """Write the key of torch's compile caches, a hash of all sources, headers and libraries."""
        sources = {
            path: member.entry for path, member in self.members.items() if not _is_metadata(path)
        }
        stamp = hashlib.sha256(f"{version}\n{hash_entries(sources)}\n".encode()).hexdigest()
        (self.root / SOURCE_HASH).write_text(stamp + "\n", encoding="ascii")
        self.update(SOURCE_HASH)

    def write_record(self) -> None:
        """Rewrite RECORD to list the tree's files, because importlib.metadata reads it."""
        (record,) = (path for path in self.members if path.endswith(".dist-info/RECORD"))
        (self.root / record).parent.mkdir(exist_ok=True)
        with (self.root / record).open("w", encoding="utf-8", newline="") as out:
            rows = csv.writer(out, lineterminator="\n")
            for path in sorted(self.members):
                if path == record:
                    rows.writerow((path, "", ""))
                    continue
                member = self.members[path]
                raw = base64.urlsafe_b64encode(bytes.fromhex(member.entry.digest)).rstrip(b"=")
                rows.writerow((path, f"sha256={raw.decode()}", member.size))
        self.update(record)


def read_member(archive: zipfile.ZipFile, item: zipfile.ZipInfo) -> Member:
    """Hash a file in a wheel. Raises an UnpackError if the file is damaged."""
    return _copy(archive, item, None)


def _copy(archive: zipfile.ZipFile, item: zipfile.ZipInfo, target: Path | None) -> Member:
    """Hash a file in the wheel and, if `target` is given, write it there in the same pass."""
    executable = bool((item.external_attr >> 16) & 0o111)
    digest = hashlib.sha256()
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(archive.open(item))
        out = None
        if target is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            out = stack.enter_context(target.open("wb"))
        for chunk in _chunks(source, item.filename, archive):
            digest.update(chunk)
            if out is not None:
                out.write(chunk)
    if target is not None:
        target.chmod(0o755 if executable else 0o644)
    return Member(Entry("100755" if executable else "100644", digest.hexdigest()), item.file_size)


def _chunks(source: IO[bytes], path: str, archive: zipfile.ZipFile) -> Iterator[bytes]:
    try:
        while chunk := source.read(_CHUNK):
            yield chunk
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        name = os.path.basename(archive.filename or "the wheel")
        raise UnpackError(
            f"{name}: '{path}' is damaged: {error}. Get the published wheel"
        ) from error


def _check_plain(path: str, wheel: Path) -> None:
    if path.startswith("/") or "\\" in path or not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise UnpackError(
            f"{wheel.name}: holds '{path}', which is not a plain path. Get the published wheel"
        )


def _stated(text: str, name: str) -> str:
    match = re.search(rf"^{name} = '([^']*)'$", text, re.MULTILINE)
    return match[1] if match else "nothing"


def _check_version(name: str, actual: str, expected: str, pin: Pin) -> None:
    if actual != expected:
        raise UnpackError(
            f"{VERSION}: {name} is {actual}, {pin.file} wants {expected}. Update the whole pin"
        )


def _is_metadata(path: str) -> bool:
    return path.split("/", 1)[0].endswith(".dist-info")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
