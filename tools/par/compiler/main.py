# SPDX-License-Identifier: Apache-2.0
"""The PAR compiler's command-line interface, which build rules use.

  main.py bundle --output=X.parlib --name=N [--prefix=P] [--unpacked] [--info=FILE] DIRECTORY
  main.py bundle ... --files=MANIFEST
  main.py link   --output=X.par --launcher=L --main=M --files=MANIFEST [--info=K=FILE] BUNDLE...

A manifest has one line per file: its path below the import root, a tab, and its path on disk. @FILE
expands to the arguments in FILE, one per line. With --persistent_worker as the last argument, the
process is a Bazel worker that reads each request's arguments from standard input and does not
recompile unchanged sources.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from tools.par.compiler import sources, worker
from tools.par.compiler.bundle import (
    BundleError,
    BundleOptions,
    CompileAll,
    Index,
    add_bundle,
    walk,
)
from tools.par.compiler.container import ArchiveWriter
from tools.par.compiler.kept import Kept
from tools.par.compiler.link import link

_KEPT = 512 << 20  # bytes of compiled code that a worker caches; torch's code is 90 MB


def main(arguments: list[str]) -> int:
    if arguments[-1:] == [worker.FLAG]:
        kept = Kept(_KEPT)
        with contextlib.closing(kept):
            return worker.serve(
                lambda more: _run(arguments[:-1] + more, kept.compile_all), sys.stdin, sys.stdout
            )
    return _run(arguments)


def _run(arguments: list[str], compile_all: CompileAll = sources.compile_all) -> int:
    options = _parse(arguments)
    try:
        if options.command == "bundle":
            _bundle(options, compile_all)
        else:
            _link(options)
    except (BundleError, ValueError) as error:
        print(f"par: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"par: {error.filename}: {error.strerror}", file=sys.stderr)
        return 3
    return 0


def _bundle(options: argparse.Namespace, compile_all: CompileAll) -> None:
    files = walk(options.directory) if options.directory else _manifest(options.files)
    files = [(path, disk) for path, disk in files if not _dropped(path, options.drop)]
    index = Index()
    if options.info:
        index.info[options.name] = json.loads(Path(options.info).read_text())
    for item in options.environment:
        name, equals, value = item.partition("=")
        if not (name and equals):
            raise BundleError(f"--environment={item}: no variable; write NAME=VALUE")
        index.environment[name] = value
    partial = Path(f"{options.output}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as stream:
            writer = ArchiveWriter(stream)
            add_bundle(
                writer,
                index,
                files,
                BundleOptions(
                    name=options.name,
                    prefix=options.prefix,
                    zip_safe=not options.unpacked,
                    strict=options.strict,
                    cold=tuple(options.cold),
                    kernels=options.kernels,
                ),
                compile_all,
            )
            index.write(writer, {})
        partial.replace(options.output)
    finally:
        partial.unlink(missing_ok=True)


def _link(options: argparse.Namespace) -> None:
    info: dict[str, Any] = {}
    for item in options.info:
        key, _, path = item.partition("=")
        info[key] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    link(
        Path(options.output),
        launcher=Path(options.launcher),
        bundles=[Path(path) for path in options.bundles],
        files=_manifest(options.files),
        settings={
            "main": options.main,
            "fast_exit": options.fast_exit,
            "startup_gc": options.startup_gc,
            **({"cuda": "system"} if options.system_cuda else {}),
        },
        info=info,
        doors=not options.no_doors,
    )


def _dropped(path: str, patterns: list[str]) -> bool:
    """Return whether one of `patterns` matches the file or a directory that contains it.

    A pattern is a path relative to the import root ("torch/test"), or the name of a directory at
    any depth ("*/tests").
    """
    directory = f"/{os.path.dirname(path)}/"
    for pattern in patterns:
        if pattern.startswith("*/"):
            if f"/{pattern[2:]}/" in directory:
                return True
        elif path == pattern or directory.startswith(f"/{pattern}/"):
            return True
    return False


def _manifest(path: str) -> list[tuple[str, str]]:
    rows = []
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        name, tab, disk = line.partition("\t")
        if not tab:
            raise BundleError(f"{path}:{number}: no tab in {line!r}; write NAME<tab>FILE")
        if os.path.isdir(disk):
            rows += [(os.path.join(name, below), file) for below, file in walk(disk)]
        else:
            rows.append((name, disk))
    return sorted(set(rows))


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="par", description=__doc__, fromfile_prefix_chars="@")
    commands = parser.add_subparsers(dest="command", required=True)
    bundle = commands.add_parser("bundle")
    bundle.add_argument("--output", required=True)
    bundle.add_argument("--name", required=True)
    bundle.add_argument("--prefix", default="")
    bundle.add_argument("--unpacked", action="store_true")
    bundle.add_argument("--strict", action="store_true")
    bundle.add_argument("--kernels", action="store_true")
    bundle.add_argument("--drop", action="append", default=[])
    bundle.add_argument("--cold", action="append", default=[])
    bundle.add_argument("--info")
    bundle.add_argument("--environment", action="append", default=[])
    bundle.add_argument("--files")
    bundle.add_argument("directory", nargs="?")
    linker = commands.add_parser("link")
    linker.add_argument("--output", required=True)
    linker.add_argument("--launcher", required=True)
    linker.add_argument("--main", required=True)
    linker.add_argument("--files", required=True)
    linker.add_argument("--fast-exit", action="store_true")
    linker.add_argument("--startup-gc", action="store_true")
    linker.add_argument("--no-doors", action="store_true")
    linker.add_argument("--system-cuda", action="store_true")
    linker.add_argument("--info", action="append", default=[])
    linker.add_argument("bundles", nargs="*")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
