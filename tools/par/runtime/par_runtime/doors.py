# SPDX-License-Identifier: Apache-2.0
"""Implement the environment variables that request output: PAR_HELP, PAR_INFO and PAR_LIST."""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING

from par_runtime import cache, files

if TYPE_CHECKING:
    from _par_importer import Runtime

HELP = """\
{name} is a PAR: one file with a Python interpreter, code and native libraries.
Main module: {main}. Arguments go to it; these environment variables go to the PAR:

  PAR_HELP=1            print this text
  PAR_INFO=1            print the inputs that it was built from, as JSON
  PAR_LIST=1            list its contents: size and name of each file, by bundle
  PAR_MAIN=MODULE       run another module as the main one; MODULE:FUNCTION calls a function
  PAR_INTERPRETER=1     run as a Python interpreter: a prompt, or -c CODE, -m MODULE, FILE
  PAR_TRACE_IMPORTS=1   print each module that the importer finds
  PAR_CACHE_DIR=DIR     unpack native libraries there ({cache})
  PAR_FAST_EXIT=0       end with the interpreter's full teardown
  PAR_STARTUP_GC=1      leave the garbage collector on while modules are imported
  PAR_VERIFY=1          first check every byte of the file, including its launcher
  PAR_DEBUG=1           show a traceback instead of a one-line error

It is also a zip file: `unzip -l` and `python3 -m zipfile -l` list it.
"""


def show(runtime: Runtime, asked: dict[str, str]) -> None:
    """Print the text that each variable in `asked`, such as PAR_HELP, requests.

    Raises SystemExit with a one-line message if standard output cannot be written.
    """
    try:
        if sys.stdout is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        _show(runtime, asked)
        sys.stdout.flush()
    except OSError as error:
        sys.stdout = None  # the interpreter must not flush it again at exit
        raise SystemExit(
            f"{runtime.program}: {', '.join(asked)}: cannot write to standard output: "
            f"{error.strerror}"
        ) from None


def _show(runtime: Runtime, asked: dict[str, str]) -> None:
    if "PAR_HELP" in asked:
        directories = cache.directories(runtime)
        print(
            HELP.format(
                name=os.path.basename(runtime.program),
                main=runtime.settings["main"],
                cache=f"now {directories[0]}" if directories else "now none is writable",
            ),
            end="",
        )
    if "PAR_INFO" in asked:
        import json

        print(json.dumps(info(runtime), indent=2, sort_keys=True))
    if "PAR_LIST" in asked:
        _list(runtime)


def info(runtime: Runtime) -> dict[str, object]:
    """Return the data that PAR_INFO prints: how the program was built and where it runs."""
    stamp: dict[str, object] = {}
    if runtime.layout == "packed":
        _, archive, index = runtime.sections[0]
        stamp = dict(archive.section("info", *index["sections"]["info"][0]))
    stamp.update(
        main=runtime.settings["main"],
        layout=runtime.layout,
        path=runtime.program,
        python=sys.version.split()[0],
        bundles={b.name: b.stamp for b in runtime.bundles},
    )
    return stamp


def _list(runtime: Runtime) -> None:
    for bundle in runtime.bundles:
        rows = {name: row[3] for name, row in files.table(bundle).items()}
        rows.update({name: row[2] for name, row in files.natives(bundle).items()})
        prefix = f"{bundle.prefix}/" if bundle.prefix else ""
        print(f"# {bundle.name} ({len(rows)} files, {sum(rows.values())} bytes)")
        for name in sorted(rows):
            print(f"{rows[name]:12d}  {prefix}{name}")
