# SPDX-License-Identifier: Apache-2.0
"""A flag parser that reports command-line errors in one line and exits with status 1."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from absl import flags

_HELP = "Pass --helpshort or --helpfull to see help on flags."
# Abseil raises a plain ValueError for --noNAME=VALUE, which its own parser does not catch.
_NO_ARGUMENT = " does not take an argument"


def parse(argv: Sequence[str], *, known_only: bool = False) -> list[str]:
    """Parse the flags in `argv`. Return the program's name, followed by the other arguments.

    Pass this function to Abseil: `app.run(main, flags_parser=parse)`.
    `torch_google.multiprocessing.handle_main` uses it as well. After an error, the program exits
    with status 1, even if Abseil's own parser would print a traceback (`--noverbose=true`).

    Args:
      argv: the command line, starting with the program's name.
      known_only: return undefined flags with the remaining arguments.
    """
    try:
        remaining: list[str] = flags.FLAGS(list(argv), known_only=known_only)
    except flags.Error as error:
        sys.exit(f"FATAL Flags parsing error: {error}\n{_HELP}")
    except ValueError as error:
        flag, phrase, rest = str(error).partition(_NO_ARGUMENT)
        if not phrase or rest:
            raise
        negated = flag.partition("=")[0]
        name = negated.lstrip("-").removeprefix("no")
        sys.exit(f"FATAL Flags parsing error: {error}: write {negated}, or --{name}=VALUE\n{_HELP}")
    return remaining
