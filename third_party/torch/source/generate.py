# SPDX-License-Identifier: Apache-2.0
"""Run one of torch's code generators, and move its outputs to where the build expects them.

    generate.py --root DIR --import SITE... --headers DIR --source NAME=FILE... GENERATOR

A Bazel action runs this script in the execution root. The script fails if a generator writes a
source file that is not listed, or does not write one that is, so that the lists match the release.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

# Substrings that occur in the names of generated files that this build does not compile. Such files
# are for other devices, or repeat the code of all shards in one file.
_NOT_COMPILED = ("CUDA", "XPU", "Everything", "c_shim_cuda", "templates/")
_SOURCES = (".cpp", ".cu", ".c")


def aten(out: Path) -> list[list[str]]:
    return [
        [
            "torchgen.gen",
            "--source-path=aten/src/ATen",
            f"--install_dir={out}/ATen",
            f"--aoti_install_dir={out}/torch/csrc/inductor/aoti_torch/generated",
            "--per-operator-headers",
        ]
    ]


def autograd(out: Path) -> list[list[str]]:
    return [
        [
            "tools.setup_helpers.generate_code",
            f"--gen-dir={out}",
            "--native-functions-path=aten/src/ATen/native/native_functions.yaml",
            "--tags-path=aten/src/ATen/native/tags.yaml",
            "--gen_lazy_ts_backend",
            "--per-operator-headers",
        ]
    ]


GENERATORS: dict[str, Callable[[Path], list[list[str]]]] = {"aten": aten, "autograd": autograd}


class GenerateError(Exception):
    """Raised if the generator's outputs differ from the build's lists. The message is one line."""


def run(generator: str, root: Path, out: Path) -> None:
    """Run the programs of `generator` in `root`. They write to `out`, an absolute path."""
    before = os.getcwd()
    os.chdir(root)
    sys.path.insert(0, os.getcwd())
    try:
        for module, *arguments in GENERATORS[generator](out):
            sys.argv = [module, *arguments]
            runpy.run_module(module, run_name="__main__", alter_sys=False)
    finally:
        os.chdir(before)


def distribute(output: Path, headers: Path, sources: dict[str, Path]) -> None:
    """Copy each source in `sources` to the path it maps to, and other files to `headers`.

    Skips the sources in _NOT_COMPILED. Raises a GenerateError if `output` has
    another unlisted source or lacks a listed one.
    """
    remaining = dict(sources)
    for file in sorted(output.rglob("*")):
        name = file.relative_to(output).as_posix()
        if file.is_dir():
            continue
        if name in remaining:
            target = remaining.pop(name)
        elif file.suffix not in _SOURCES:
            target = headers / name
        elif any(mark in name for mark in _NOT_COMPILED):
            continue
        else:
            raise GenerateError(
                f"the generator made {name}, which is in no list. Add it to "
                "third_party/torch/source/lists.bzl, or to the files that generate.py skips"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        # Remove the path of `output`, which some sources contain in #include lines.
        target.write_bytes(file.read_bytes().replace(f"{output}/".encode(), b""))
    for name in remaining:
        raise GenerateError(
            f"the generator did not make {name}. Remove it from third_party/torch/source/lists.bzl"
        )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="generate", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--import", dest="imports", type=Path, action="append", default=[])
    parser.add_argument("--headers", type=Path, required=True)
    parser.add_argument("--source", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("generator", choices=sorted(GENERATORS))
    args = parser.parse_args(argv)
    sys.path[:0] = [str(path.absolute()) for path in args.imports]
    sources = {name: Path(file) for name, _, file in (item.partition("=") for item in args.source)}
    with tempfile.TemporaryDirectory(prefix="torch-codegen-") as scratch:
        run(args.generator, args.root, Path(scratch))
        try:
            distribute(Path(scratch), args.headers, sources)
        except GenerateError as error:
            print(f"{args.generator}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
