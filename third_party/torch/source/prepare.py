# SPDX-License-Identifier: Apache-2.0
"""Create the source tree of `@torch_source`, using only the standard library.

    prepare.py --tree DIR --pin pin.json --patches DIR --seam DIR --contents FILE --out DIR

The repository rule runs this script. The script patches the tree, deletes files that the build does
not read, and moves the rest to OUT. It also deletes upstream's BUILD files, because the overlay is
a single package. The patch series must apply exactly. The Python sources and the seam (modules with
hooks, which are added to torch) are copied to OUT/site, which then has the contents of a wheel,
except for files that the build generates.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # If run as a script, add the workspace's root to the import path.
    sys.path[0] = str(Path(__file__).resolve().parents[3])

from third_party.torch.unpack import SEAM, SEAM_UPSTREAM, SOURCE_HASH, VERSION, UnpackError
from tools.importer import (
    ApplyError,
    SeriesError,
    UserError,
    apply_series,
    load_series,
)

# The directories that the build, the programs and the tests use.
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
# Files that the build generates itself. Upstream's macros.h is a placeholder, and its
# mobile_bytecode_generated.h is from another release of flatbuffers.
_GENERATED = ("caffe2/core/macros.h", "torch/csrc/jit/serialization/mobile_bytecode_generated.h")
_PACKAGE_MARKS = ("BUILD", "BUILD.bazel", "MODULE.bazel", "REPO.bazel", "WORKSPACE")


class SourceError(UserError):
    """Raised if the source tree does not match the pin. The message gives the next step."""


# Suffixes of files that wheels do not contain: C++ sources, kernels for other devices, CMake
# templates.
_COMPILED = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".metal", ".mm", ".in", ".cmake")
# Packages that compile C++ at run time. Wheels contain their C++ files.
_TEMPLATES = ("torch/_inductor", "torch/utils/benchmark")
# Files of upstream's build systems, which wheels do not contain either.
_OF_BUILDS = ("BUCK.oss", "CMakeLists.txt", "build.bzl")


@dataclass(frozen=True)
class Inputs:
    """The inputs of `prepare`. `contents` is a file that lists the source files in a wheel."""

    tree: Path
    pin: Path
    patches: Path
    seam: Path
    contents: Path


def prepare(inputs: Inputs, out: Path) -> None:
    """Patch the tree and move it to `out`.

    Raises a SourceError if the tree is from a different release, a SeriesError if the patch series
    is invalid, and an ApplyError if a patch does not apply.
    """
    tree, pin_file, patches = inputs.tree, inputs.pin, inputs.patches
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
    make_site(out, inputs, pin, series.digest)
    info = {
        "tag": pin["tag"],
        "commit": pin["commit"],
        "version": pin["version"],
        "series": series.digest,
    }
    (out / "SOURCE_INFO.json").write_text(json.dumps(info, indent=2) + "\n", encoding="utf-8")


def make_site(out: Path, inputs: Inputs, pin: Mapping[str, str], digest: str) -> None:
    """Fill `out`/site with the Python packages, the seam's modules, version.py and the metadata."""
    contents = json.loads(inputs.contents.read_text(encoding="utf-8"))
    left_out = [pattern for pattern in contents["left_out"] if not pattern.startswith("torch/_C")]
    site = out / "site"
    for root in contents["roots"]:
        for file in sorted((out / root).rglob("*")):
            path = file.relative_to(out).as_posix()
            if not file.is_file():
                continue
            if file.name in _OF_BUILDS:
                continue
            if file.suffix in _COMPILED and not path.startswith(_TEMPLATES):
                continue
            if any(fnmatch.fnmatchcase(path, pattern) for pattern in left_out):
                continue
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, site / path)
    (site / SEAM).rename(site / SEAM_UPSTREAM)
    for source in sorted(inputs.seam.rglob("*.py")):
        target = site / "torch" / source.relative_to(inputs.seam)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    version = pin["version"]
    (site / VERSION).write_text(
        "from typing import Optional\n\n"
        "__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']\n"
        f"__version__ = '{version}'\ndebug = False\ncuda: Optional[str] = None\n"
        f"git_version = '{pin['commit']}'\nhip: Optional[str] = None\nxpu: Optional[str] = None\n",
        encoding="utf-8",
    )
    (site / SOURCE_HASH).write_text(f"{version}-{digest}\n", encoding="ascii")
    metadata = site / f"torch-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\nLicense: BSD-3-Clause\n",
        encoding="utf-8",
    )
    shutil.copyfile(out / "LICENSE", metadata / "LICENSE")
    shutil.copyfile(out / "NOTICE", metadata / "NOTICE")


def check_version(tree: Path, version: str, pin_file: Path) -> None:
    """Raise a SourceError if the tree is from a different release, for example if a tag moved."""
    file = tree / "version.txt"
    try:
        tree_version = file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SourceError(f"{file}: {error.strerror}. This is not a torch source tree") from None
    if tree_version.partition("a0")[0] != version:
        raise SourceError(
            f"{file}: says {tree_version}, {pin_file} wants {version}. Update the whole pin"
        )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="prepare", description=__doc__.split("\n", 1)[0])
    for name in ("tree", "pin", "patches", "seam", "contents", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    args = parser.parse_args(argv)
    inputs = Inputs(args.tree, args.pin, args.patches, args.seam, args.contents)
    try:
        prepare(inputs, args.out)
    except (ApplyError, OSError, SeriesError, SourceError, UnpackError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
