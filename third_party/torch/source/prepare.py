# SPDX-License-Identifier: Apache-2.0
"""Make the source tree of `@torch_source`. Run by the repository rule; stdlib only.

    prepare.py --tree DIR --pin pin.json --patches DIR --out DIR

patches the tree, drops what no build reads (BUILD files of upstream's own workspace above all: the
overlay is one package) and moves the rest to OUT. The series must fit exactly.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

if not __package__:  # Started by its path: imports are from the workspace's root.
    sys.path[0] = str(Path(__file__).resolve().parents[3])

from tools.importer import (
    ApplyError,
    SeriesError,
    UserError,
    apply_series,
    load_series,
)

# The directories that the build, the programs and the tests are made of.
_KEPT = (
    "aten",
    "c10",
    "caffe2",
    "functorch",
    "test",
    "third_party/miniz-3.0.2",
    "tools",
    "torch",
    "torchgen",
)
_KEPT_FILES = ("LICENSE", "NOTICE", "build_variables.bzl", "version.txt")
# A placeholder for what the build makes.
_GENERATED = ("caffe2/core/macros.h",)
_PACKAGE_MARKS = ("BUILD", "BUILD.bazel", "MODULE.bazel", "REPO.bazel", "WORKSPACE")


class SourceError(UserError):
    """A source tree that is not what the pin says. One line, with the next step."""


def prepare(tree: Path, pin_file: Path, patches: Path, out: Path) -> None:
    """Patch `tree` and move it to `out`. Raises SourceError, SeriesError or ApplyError."""
    pin = json.loads(pin_file.read_text(encoding="utf-8"))
    check_version(tree, pin["version"], pin_file)
    series = load_series(patches)
    apply_series(series, tree)
    for path in (*_KEPT, *_KEPT_FILES):
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).rename(out / path)
    shutil.rmtree(tree)
    for path in _GENERATED:
        (out / path).unlink()
    for mark in _PACKAGE_MARKS:
        for file in out.rglob(mark):
            if file.is_file():
                file.unlink()
    info = {
        "tag": pin["tag"],
        "commit": pin["commit"],
        "version": pin["version"],
        "series": series.digest,
    }
    (out / "SOURCE_INFO.json").write_text(json.dumps(info, indent=2) + "\n", encoding="utf-8")


def check_version(tree: Path, version: str, pin_file: Path) -> None:
    """Refuse the tree of another release: a tag that moved, or a mirror that is wrong."""
    file = tree / "version.txt"
    try:
        found = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SourceError(f"{file}: {error.strerror}. This is no source tree of torch") from None
    if found.partition("a0")[0] != version:
        raise SourceError(f"{file}: says {found}, {pin_file} wants {version}. Move the pin whole")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="prepare", description=__doc__.split("\n", 1)[0])
    for name in ("tree", "pin", "patches", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    args = parser.parse_args(argv)
    try:
        prepare(args.tree, args.pin, args.patches, args.out)
    except (ApplyError, OSError, SeriesError, SourceError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
