#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Build the patched tree of an imported project from its pin, using only the standard library.

    unpack.py --workspace DIR --project NAME --out DIR

The repository rule runs this script. The script fetches upstream's files, checks their pinned
hashes, applies the patch series, and compares the hash of the resulting tree with the pinned tree
hash. It writes OUT/site (the tree and the metadata of a Python distribution) and
OUT/SOURCE_INFO.json. The importer computes the pinned tree hash from the same tree in memory
(tools/importer/builders/tree.py).
"""

from __future__ import annotations

import argparse
import email.parser
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

if not __package__:  # If run as a script, add the workspace's root to the import path.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from third_party.imported.fetch import fetch_tree
from tools.importer import UserError, apply_series, load_series
from tools.importer.project import Project, load_project
from tools.importer.selection import SelectedSnapshot, whole
from tools.importer.snapshot import EXECUTABLE, SYMLINK, Blob, Snapshot
from tools.importer.tree import tree_hash
from tools.importer.tree_pin import TreePin, read_tree_pin

# A file with one of these names would make its folder a Bazel package, which globs skip.
_MARKERS = ("BUILD", "BUILD.bazel")


def unpack(project: Project, out: Path) -> None:
    """Write `out`/site and `out`/SOURCE_INFO.json.

    Raises a UserError if upstream's files cannot be fetched or the tree does not match the pin.
    """
    pin = read_tree_pin(project.pin)
    site = out / "site"
    shutil.rmtree(site, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="imported-", dir=out) as scratch:
        upstream = fetch_tree(project, pin, Path(scratch))
        tree = SelectedSnapshot(
            upstream, project.selection, label=pin.tag, natives=True, where=str(project.file)
        )
        series = build_site(project, pin, tree, site)
        write_metadata(project, pin, tree, site)
    info = {
        "project": project.name,
        "tag": pin.tag,
        "origin": dict(pin.origin),
        "series": series,
        "tree": pin.tree_hash,
    }
    (out / "SOURCE_INFO.json").write_text(json.dumps(info, indent=2) + "\n", encoding="utf-8")


def build_site(project: Project, pin: TreePin, tree: Snapshot, site: Path) -> str:
    """Write the patched tree, check its hash, and return the digest of the patch series."""
    series = load_series(project.series_of(pin.tag))
    for path in sorted(tree.paths()):
        blob = tree.read(path)
        assert blob is not None, f"the tree lists {path}, but cannot read it"
        _write(site / path, blob)
    base = json.loads((series.root / "base.json").read_text(encoding="utf-8"))
    apply_series(series, site, absent=base["absent"])
    actual = tree_hash(site)
    if actual != pin.tree_hash:
        raise UserError(
            f"{project.pin}: tree_hash is {pin.tree_hash}, the patched tree hashes to {actual}. If the"
            " series was changed on purpose, run `tools/import.py --project "
            f"{project.name} refresh --base`"
        )
    for file in sorted(site.rglob("*")):
        if file.name in _MARKERS and not file.is_dir():
            raise UserError(
                f"{project.file}: {file.relative_to(site)} makes its folder a Bazel package. Add it"
                " to 'exclude'"
            )
    return series.digest


def write_metadata(project: Project, pin: TreePin, tree: Snapshot, site: Path) -> None:
    """Write NAME-VERSION.dist-info from upstream's metadata, unless the tree has a .dist-info."""
    if any(path.name.endswith(".dist-info") for path in site.iterdir()):
        return
    upstream = whole(tree)
    info = upstream.read("PKG-INFO")
    version = pin.version or "0"
    if info is None:
        text = f"Metadata-Version: 2.1\nName: {project.name}\nVersion: {version}\n"
        info = Blob(text.encode())
    message = email.parser.BytesHeaderParser().parsebytes(info.data)
    name = re.sub(r"[-_.]+", "_", str(message["Name"] or project.name))
    version = str(message["Version"] or version)
    folder = site / f"{name}-{version}.dist-info"
    _write(folder / "METADATA", Blob(info.data))
    for path in project.licence.files:
        licence = upstream.read(path)
        if licence is not None:
            _write(folder / "licenses" / path, Blob(licence.data))
    for path in sorted(upstream.paths()):
        if re.fullmatch(r"(?:src/)?[^/]+\.egg-info/entry_points\.txt", path):
            points = upstream.read(path)
            if points is not None:
                _write(folder / "entry_points.txt", Blob(points.data))


def distribution(site: Path) -> Mapping[str, object]:
    """Return the distribution's name, version and requirements from the metadata in `site`."""
    (file,) = site.glob("*.dist-info/METADATA")
    message = email.parser.BytesHeaderParser().parsebytes(file.read_bytes())
    return {
        "distribution": str(message["Name"]),
        "version": str(message["Version"]),
        "requires": sorted(set(requirements(site))),
    }


def requirements(site: Path) -> Iterator[str]:
    """Yield the normalized names of the required distributions, except those for extras only."""
    for file in sorted(site.glob("*.dist-info/METADATA")):
        message = email.parser.BytesHeaderParser().parsebytes(file.read_bytes())
        for line in message.get_all("Requires-Dist", []):
            match = re.match(r"\s*([A-Za-z0-9._-]+)([^;]*)(;.*)?$", line)
            if match and not _is_optional(match[3] or ""):
                yield re.sub(r"[-_.]+", "_", match[1]).lower()


def _is_optional(marker: str) -> bool:
    """Return whether a marker excludes Linux or the build's Python version, or selects an extra."""
    others = (
        r"extra\s*==",
        r"(sys_platform|platform_system)\s*==\s*['\"](?![Ll]inux)",
        r"python_version\s*<\s*['\"]3\.([0-9]|1[01])['\"]",
        r"python_full_version\s*<\s*['\"]3\.([0-9]|1[01])\b",
    )
    return any(re.search(pattern, marker) for pattern in others)


def _write(target: Path, blob: Blob) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if blob.mode == SYMLINK:
        target.symlink_to(os.fsdecode(blob.data))
        return
    target.write_bytes(blob.data)
    target.chmod(0o755 if blob.mode == EXECUTABLE else 0o644)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="unpack", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--workspace", type=Path, required=True)
    parser.add_argument("--project", required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args(arguments)
    try:
        unpack(load_project(args.workspace.resolve(), args.project), args.out)
        facts = distribution(args.out / "site")
        (args.out / "requires.json").write_text(json.dumps(facts) + "\n", encoding="utf-8")
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
