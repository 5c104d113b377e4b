# SPDX-License-Identifier: Apache-2.0
"""Compare the image of a PAR with one built with pip; see README.md."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import results
from benchmarks.images.measure import Buildah, Cost, Ours, Pip, pull_and_start, stored_bytes
from benchmarks.results import Figure


def main(arguments: list[str]) -> int:
    options = _parse(arguments)
    ours = Ours()
    ours.build()  # also writes bazel-bin/examples/data, which the other image contains
    pip = Pip(Buildah(options.work / "build"), options.context, options.base, options.pip_option)
    figures: list[Figure] = []
    if size := stored_bytes(options.storage):
        print(
            f"images: {options.storage} has {size} bytes of images, which would not be pushed "
            "again; start with an empty registry",
            file=sys.stderr,
        )
        return 1
    try:
        for subject in (ours, pip):
            figures += _measure(subject, options)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    figures.sort(key=lambda figure: _CASES.index(figure.case))
    for figure in figures:
        print(f"| {figure.case} | {figure.subject} | {figure.number} | {figure.cpu_seconds} |")
    results.write(options.json, "images", figures)
    return 0


_CASES = (
    "The image in the registry",
    "The first build",
    "The first push",
    "Build after an edit of one line",
    "Push after an edit of one line",
    "Pull and unpack",
    "First start",
    "Second start",
)


def _measure(subject: Ours | Pip, options: argparse.Namespace) -> list[Figure]:
    address = f"{options.registry}/images/{subject.name}"
    subject.prepare()
    empty = stored_bytes(options.storage)
    costs: dict[str, Cost] = {"The first build": subject.build()}
    costs["The first push"] = subject.push(f"{address}:one")
    first = stored_bytes(options.storage) - empty
    with subject.edited():
        costs["Build after an edit of one line"] = subject.build()
        costs["Push after an edit of one line"] = subject.push(f"{address}:two")
    second = stored_bytes(options.storage) - empty - first
    subject.build()
    with tempfile.TemporaryDirectory(dir=options.work) as directory:
        buildah = Buildah(Path(directory))
        cache = Path(directory, "cache")
        starts = pull_and_start(buildah, f"{address}:one", subject.entry, cache)
        costs |= dict(zip(("Pull and unpack", "First start", "Second start"), starts, strict=True))
        buildah.run("rmi", "--all", "--force")
    sizes = {
        "The image in the registry": first,
        "The first push": first,
        "Push after an edit of one line": second,
    }
    return [
        Figure(
            case=case,
            subject=subject.name,
            cpu_seconds=round(cost.cpu, 2) if (cost := costs.get(case)) and cost.cpu else None,
            wall_seconds=round(cost.wall, 2) if cost else None,
            number=round(sizes[case] / 1e6, 3) if case in sizes else None,
            unit="MB" if case in sizes else None,
        )
        for case in _CASES
    ]


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.images", description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="a directory with 10 GB of space")
    parser.add_argument("--context", type=Path, required=True, help="has requirements.txt")
    parser.add_argument("--base", required=True, help="an image in buildah's storage")
    parser.add_argument("--registry", required=True, help="HOST:PORT of a registry on loopback")
    parser.add_argument("--storage", type=Path, required=True, help="the registry's directory")
    parser.add_argument("--pip-option", action="append", default=[], help="for `buildah bud`")
    parser.add_argument("--json", type=Path, required=True, help="the file for the results")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
