# SPDX-License-Identifier: Apache-2.0
"""In real processes, C++ messages from Abseil appear in the log and obey Abseil's levels."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from torch_google.logging import abseil

_START = """
import os, signal, sys
import _speaker
from absl import flags
from torch_google import logging
logging.define_flags()
flags.FLAGS(sys.argv)
"""
_SETUP = "logging.setup(native=True)\n"
_SPEAK = """
for severity, text in enumerate(["of info", "of warning", "of error"]):
    _speaker.say(severity, text)
for level in range(4):
    _speaker.say_verbosely(level, f"detail {level}")
"""


def _run(
    program: str, *arguments: str, level: str | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != abseil.LEVEL_VARIABLE}
    if level is not None:
        environment[abseil.LEVEL_VARIABLE] = level
    return subprocess.run(
        [sys.executable, "-c", _START + program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=environment,
    )


def _said(text: str) -> list[str]:
    """Return the text of each C++ message, without its prefix."""
    return [line.partition("] ")[2] for line in text.splitlines() if "speaker.cc:" in line]


def test_a_message_of_cpp_is_a_record_of_the_stream(tmp_path: Path) -> None:
    done = _run(_SETUP + _SPEAK, f"--torch_log_directory={tmp_path}", "--verbosity=0")
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.iterdir()
    for text in (done.stderr, path.read_text()):
        assert _said(text) == ["of info", "of warning", "of error", "detail 0"]
        letters = [line[0] for line in text.splitlines() if "speaker.cc:" in line]
        assert letters == ["I", "W", "E", "I"]
        form = re.compile(r"[IWE]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ speaker\.cc:\d+\] ")
        assert all(form.match(line) for line in text.splitlines() if "speaker.cc:" in line)


def test_a_record_has_severity_file_and_line() -> None:
    done = _run(_SETUP + "_speaker.say(1, 'two\\nlines')", "--torch_log_json")
    (record,) = [json.loads(line) for line in done.stderr.splitlines()]
    assert (record["severity"], record["file"], record["logger"]) == (
        "WARNING",
        "speaker.cc",
        "torch.cpp",
    )
    assert record["message"] == "two\nlines"
    assert record["line"] > 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--verbosity=-3"], []),
        (["--verbosity=-2"], ["of error"]),
        (["--verbosity=-1"], ["of warning", "of error"]),
        (["--verbosity=0"], ["of info", "of warning", "of error", "detail 0"]),
        (["--v=2"], ["of info", "of warning", "of error", "detail 0", "detail 1", "detail 2"]),
        (["--verbosity=0", "--minloglevel=2"], ["of error"]),
        (["--verbosity=-2", "--minloglevel=0"], ["of error"]),
        (
            ["--verbosity=0", "--vmodule=other=3,spea*=1,speaker=3"],
            ["of info", "of warning", "of error", "detail 0", "detail 1"],
        ),
    ],
)
def test_levels_are_those_of_the_flags(arguments: list[str], expected: list[str]) -> None:
    assert _said(_run(_SETUP + _SPEAK, *arguments).stderr) == expected


def test_pythons_messages_have_the_same_least_severity() -> None:
    program = _SETUP + "logging.warning('python')\n_speaker.say(1, 'native')\nlogging.error('end')"
    assert "python" in _run(program).stderr
    done = _run(program, "--minloglevel=2")
    assert "python" not in done.stderr
    assert "native" not in done.stderr
    assert "end" in done.stderr


def test_a_change_of_verbosity_is_followed_whoever_makes_it() -> None:
    done = _run(
        _SETUP
        + "from absl import logging as absl_logging\n"
        + "absl_logging.set_verbosity(absl_logging.ERROR)\n"
        + "_speaker.say(1, 'first')\n"
        + "flags.FLAGS.verbosity = 1\n"
        + "_speaker.say_verbosely(1, 'second')\n"
        + "import _absl\n"
        + "print(_absl.flags()['c10_caffe2_log_level'], os.environ['TORCH_CPP_LOG_LEVEL'])\n"
    )
    assert _said(done.stderr) == ["second"]
    assert done.stdout == "0 INFO\n"


def test_a_limit_holds_for_later_changes() -> None:
    done = _run(
        _SETUP
        + "logging.set_verbosity(logging.INFO)\n"
        + _SPEAK
        + "print(logging.get_verbosity())",
        "--minloglevel=1",
    )
    assert _said(done.stderr) == ["of warning", "of error"]
    assert done.stdout == "-1\n"


@pytest.mark.parametrize(("level", "expected"), [("ERROR", ["of error"]), ("2", ["of error"])])
def test_torchs_own_variable_stays(level: str, expected: list[str]) -> None:
    done = _run(_SETUP + _SPEAK + "print(os.environ['TORCH_CPP_LOG_LEVEL'])", "--v=1", level=level)
    assert _said(done.stderr) == expected
    assert done.stdout == f"{level}\n"


def test_a_child_follows_its_parents_flags_and_its_own_changes() -> None:
    child = "logging.set_verbosity(logging.ERROR)\n_speaker.say(1, 'no')\n_speaker.say(2, 'yes')"
    # Set TORCH_CPP_LOG_LEVEL as a parent process would have set it.
    done = _run(_SETUP + child, level="WARNING")
    assert _said(done.stderr) == ["yes"]


def test_a_program_that_sets_nothing_up_has_abseils_lines() -> None:
    done = _run("_speaker.say(2, 'alone')")
    assert re.search(r"^E\d{4} .* speaker\.cc:\d+\] alone$", done.stderr, re.MULTILINE)


def test_nothing_is_followed_after_shutdown() -> None:
    done = _run(
        _SETUP
        + "logging.shutdown()\nlogging.set_verbosity(logging.ERROR)\n_speaker.say(1, 'of warning')\n"
    )
    assert _said(done.stderr) == ["of warning"]


def test_much_from_a_thread_that_one_waits_for_does_not_block() -> None:
    """The main thread holds the GIL while a C++ thread logs, so the sink must not acquire it."""
    done = _run(_SETUP + "_speaker.say_much(20_000)")
    assert done.returncode == 0
    assert _said(done.stderr) == [f"number {number}" for number in range(20_000)]


def test_the_last_message_of_a_process_that_it_ends_arrives() -> None:
    done = _run(_SETUP + "_speaker.say(3, 'the end')")
    assert done.returncode == -6
    (line,) = [line for line in done.stderr.splitlines() if "the end" in line]
    assert line.startswith("F") or "CRITICAL" in line
    assert "stack trace" in done.stderr


@pytest.mark.parametrize("value", ["socket", "socket=x", "=1", "a=1,b"])
def test_what_is_no_vmodule_is_refused(value: str) -> None:
    done = _run("", f"--vmodule={value}")
    assert done.returncode != 0
    assert "give NAME=LEVEL" in done.stderr


def test_flags_of_cpp_can_be_set() -> None:
    done = _run(
        "import _absl\n"
        "_absl.set_flag('c10_caffe2_log_level', '3')\n"
        "print(_absl.flags()['c10_caffe2_log_level'])\n"
        "for name, value in [('no_such', '1'), ('c10_caffe2_log_level', 'x')]:\n"
        "    try: _absl.set_flag(name, value)\n"
        "    except (LookupError, ValueError) as error: print(type(error).__name__)\n"
        "try: _absl.set_log_levels(4, 0)\n"
        "except ValueError as error: print(error)\n"
    )
    assert done.stdout.splitlines()[:3] == ["3", "LookupError", "ValueError"]
    assert "severity 4; give 0 (INFO)" in done.stdout
