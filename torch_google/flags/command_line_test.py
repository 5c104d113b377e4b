# SPDX-License-Identifier: Apache-2.0
"""Every command-line error is reported as one message, without a traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import sys
from absl import app, flags
from torch_google.flags import parse
flags.DEFINE_boolean("verbose", False, "More words.")
flags.DEFINE_integer("steps", 1, "How many.")
app.run(lambda argv: print(flags.FLAGS.verbose, argv[1:]), flags_parser=parse)
"""
_MESSAGES = {
    "--noverbose=true": "--noverbose=true does not take an argument: write --noverbose, or --verbose=VALUE",
    "--noverbose=": "--noverbose= does not take an argument: write --noverbose, or --verbose=VALUE",
    "-noverbose=false": "-noverbose=false does not take an argument: write -noverbose, or --verbose=VALUE",
    "--verbose=perhaps": "flag --verbose=perhaps: ('Non-boolean argument to boolean flag', 'perhaps')",
    "--steps=a": "flag --steps=a: invalid literal for int() with base 10: 'a'",
    "--steps": "Missing value for flag --steps",
    "--stepz=1": "Unknown command line flag 'stepz'. Did you mean: steps ?",
    "--flagfile=/nowhere": "ERROR:: Unable to open flagfile: [Errno 2] No such file or directory: '/nowhere'",
}


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("argument", _MESSAGES)
def test_a_mistake_is_told_without_a_traceback(argument: str) -> None:
    done = _run(argument)
    assert done.returncode == 1
    message, help_line = done.stderr.splitlines()
    assert message == f"FATAL Flags parsing error: {_MESSAGES[argument]}"
    assert help_line == "Pass --helpshort or --helpfull to see help on flags."


def test_what_is_right_is_parsed() -> None:
    assert _run("--verbose", "a", "--steps=3").stdout == "True ['a']\n"
    assert _run("--verbose", "--noverbose").stdout == "False []\n"
