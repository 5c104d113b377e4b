# SPDX-License-Identifier: Apache-2.0
"""In real processes, the log stream writes every record to every output, even at exit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

_START = """
import os, signal, sys, warnings, logging as python_logging
from absl import app, flags
from torch_google import logging
logging.define_flags()
flags.FLAGS(sys.argv)
"""


def _run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _START + program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def _all(directory: Path) -> str:
    return "".join(path.read_text() for path in sorted(directory.iterdir()))


_TALK = """
import torch
logging.setup()
logging.warning("from absl")
python_logging.getLogger("some.library").warning("from a library")
python_logging.getLogger("torch._dynamo").warning("from torch")
warnings.warn("from warnings")
"""


def test_python_torch_and_warnings_are_one_stream(tmp_path: Path) -> None:
    done = _run(_TALK, f"--torch_log_directory={tmp_path}")
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.iterdir()
    assert ".log.INFO." in path.name
    for text in (done.stderr, path.read_text()):
        lines = [re.sub(r"^.*?\] ", "", line) for line in text.splitlines()]
        assert lines == [
            "from absl",
            "from a library",
            "from torch",
            "UserWarning: from warnings",
        ]


def test_a_warning_is_from_the_place_that_it_is_about(tmp_path: Path) -> None:
    module = tmp_path / "old_code.py"
    module.write_text("import warnings\n\nwarnings.warn('do not')\n")
    done = _run(f"logging.setup()\nsys.path.insert(0, {str(tmp_path)!r})\nimport old_code")
    assert "old_code.py:3] UserWarning: do not" in done.stderr


def test_json(tmp_path: Path) -> None:
    done = _run(_TALK, "--torch_log_json", f"--torch_log_directory={tmp_path}")
    records = [json.loads(line) for line in _all(tmp_path).splitlines()]
    assert [record["logger"] for record in records] == [
        "absl",
        "some.library",
        "torch._dynamo",
        "py.warnings",
    ]
    assert [json.loads(line)["message"] for line in done.stderr.splitlines()] == [
        record["message"] for record in records
    ]


def test_without_setup_nothing_is_changed() -> None:
    done = _run(
        "import torch\nprint(python_logging.root.handlers, warnings.showwarning.__module__)"
    )
    assert done.stdout == "[] warnings\n", done.stderr


def test_shutdown_undoes_setup() -> None:
    done = _run(
        "show, error = warnings.showwarning, sys.stderr\n"
        "logging.setup(native=True)\nlogging.shutdown()\n"
        "print(warnings.showwarning is show, sys.stderr is error)"
    )
    assert done.stdout == "True True\n", done.stderr


_FAIL = """
def fail(*arguments, **named): raise OSError("no")
from torch_google import gfile
from torch_google.logging import stream
show, error = warnings.showwarning, sys.stderr
logging.setup(native=True, directory="memory://logs")
formatter = stream._stream.formatter
logging.warning("said")
"""


@pytest.mark.parametrize("break_it", ["gfile.Open = fail", "sys.stderr.close()"])
def test_a_shutdown_that_fails_undoes_setup_all_the_same(break_it: str) -> None:
    done = _run(
        _FAIL + f"{break_it}\n"
        "try: logging.shutdown()\n"
        "except (OSError, ValueError) as raised: print('raised')\n"
        "print(warnings.showwarning is show, sys.stderr is error)\n"
        "handler, = python_logging.root.handlers\n"
        "print(handler.python_handler.formatter is formatter, handler.python_handler.stream is error)\n"
        "logging.shutdown()"
    )
    assert done.stdout == "raised\nTrue True\nTrue True\n", done.stderr


@pytest.mark.parametrize(
    ("end", "status"),
    [("os.kill(os.getpid(), signal.SIGKILL)", -9), ("os._exit(0)", 0), ("os.abort()", -6)],
)
def test_what_was_logged_is_in_the_file_whatever_the_end(
    tmp_path: Path, end: str, status: int
) -> None:
    program = f"logging.setup(native=False)\nfor n in range(500): logging.info('line %d', n)\n{end}"
    done = _run(program, f"--torch_log_directory={tmp_path}", "--verbosity=0")
    assert done.returncode == status
    assert len(re.findall(r"\] line \d+\n", _all(tmp_path))) == 500


def test_a_fatal_message_is_the_last_one(tmp_path: Path) -> None:
    done = _run("logging.setup()\nlogging.fatal('over')", f"--torch_log_directory={tmp_path}")
    assert done.returncode == -6
    assert "over" in done.stderr


@pytest.mark.parametrize("flag", ["torch_log_directory", "log_dir"])
@pytest.mark.parametrize("template", ["{}/file/logs", "unknown://logs"])
def test_a_directory_of_a_flag_that_cannot_be_made_is_one_line(
    tmp_path: Path, flag: str, template: str
) -> None:
    (tmp_path / "file").write_text("")
    directory = template.format(tmp_path)
    done = _run("logging.setup()", f"--{flag}={directory}")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        f"FATAL Flags parsing error: --{flag}={directory}: no log can be written"
    )


def test_a_directory_of_an_argument_that_cannot_be_made_raises(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = _run(
        f"try: logging.setup(directory='{tmp_path}/file/logs')\n"
        "except OSError as error: print(error.filename)"
    )
    assert done.stdout.startswith(f"{tmp_path}/file"), done.stderr


@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        (["--log_dir={}/a"], {"a"}),
        (["--log_dir={}/a", "--torch_log_directory={}/b"], {"b"}),
        (["--log_dir="], set()),
        ([], set()),
    ],
)
def test_log_dir_alone_writes_files_there(
    tmp_path: Path, arguments: list[str], files: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Bazel sets TEST_TMPDIR, which Abseil uses as the default of --log_dir. That default alone must
    # not create a log file.
    monkeypatch.setenv("TEST_TMPDIR", f"{tmp_path}/default")
    program = "logging.setup(native=False)\nlogging.warning('said')"
    done = _run(program, *(argument.format(tmp_path) for argument in arguments))
    assert done.returncode == 0, done.stderr
    assert {path.parent.name for path in tmp_path.glob("*/*.log.INFO.*")} == files
    for path in tmp_path.glob("*/*.log.INFO.*"):
        assert path.read_text().endswith("] said\n")


def test_json_stays_json_for_a_malformed_message(tmp_path: Path) -> None:
    program = "logging.setup(native=False)\nlogging.warning('%d of %d', 1)"
    done = _run(program, "--torch_log_json", f"--log_dir={tmp_path}")
    for text in (done.stderr, _all(tmp_path)):
        (line,) = text.splitlines()
        assert json.loads(line)["message"].startswith("%d of %d (arguments (1,): TypeError")


def test_a_remote_store_gets_everything_at_exit() -> None:
    program = (
        "import atexit\n"
        "from torch_google import gfile\n"
        "def show():\n"
        "    for part in sorted(gfile.Glob('memory://logs/*')):\n"
        "        print(part, gfile.Open(part).read())\n"
        "atexit.register(show)\n"
        "import torch_google.logging.stream as stream\n"
        "atexit.unregister(stream.shutdown); atexit.register(stream.shutdown)\n"
        "logging.setup(directory='memory://logs', program='prog')\n"
        "logging.error('urgent'); logging.warning('patient')"
    )
    done = _run(program)
    assert done.returncode == 0, done.stderr
    assert "] urgent" in done.stdout
    assert "] patient" in done.stdout
    assert "/prog." in done.stdout


@pytest.mark.parametrize("native", ["--torch_log_native", "--notorch_log_native"])
def test_a_program_without_standard_error_logs_to_its_file(tmp_path: Path, native: str) -> None:
    program = (
        "logging.setup(); logging.warning('said')\n"
        "try:\n    os.write(2, b'[W1121 18:27:56.3 a.cpp:5] native\\n')\n"
        "except OSError: pass\n"
    )
    arguments = [sys.executable, "-c", _START + program, f"--torch_log_directory={tmp_path}"]
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", *arguments, native], check=False, timeout=300
    )
    assert done.returncode == 0
    texts = [re.sub(r"^.*?\] ", "", line) for line in _all(tmp_path).splitlines()]
    assert texts == (["said", "native"] if native == "--torch_log_native" else ["said"])


def test_a_full_disk_is_said_once_and_no_line_is_cut_for_good(tmp_path: Path) -> None:
    program = (
        "import resource\n"
        "logging.setup(native=False)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, -1))\n"
        "for n in range(100): logging.warning('line %d', n)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))\n"
        "logging.warning('line 100')"
    )
    done = _run(program, f"--torch_log_directory={tmp_path}")
    assert done.returncode == 0
    assert len(re.findall(r"\] line \d+\n", done.stderr)) == 101
    others = [line for line in done.stderr.splitlines() if "] line " not in line]
    assert [line.partition(": ")[0] for line in others] == ["torch_google.logging"] * 2
    assert "File too large" in others[0]
    assert str(tmp_path) in others[0]
    *_, cut, last = _all(tmp_path).splitlines()
    assert last.endswith("] line 100")
    assert "line 100" not in cut


def test_a_program_of_any_name_has_a_file(tmp_path: Path) -> None:
    done = _run(
        "logging.setup(program='a/b'); logging.warning('x')\n"
        "sys.argv = []; logging.setup(); logging.warning('y')",
        f"--torch_log_directory={tmp_path}",
    )
    assert done.returncode == 0, done.stderr
    assert sorted(path.name.split(".")[0] for path in tmp_path.iterdir()) == ["a_b", "python"]


_MANY = """
import multiprocessing
def work(number, directory):
    logging.setup(directory=directory, native=False)
    for count in range(1000): logging.warning('worker %d says %d', number, count)
if __name__ == '__main__':
    context = multiprocessing.get_context('fork')
    workers = [context.Process(target=work, args=(n, flags.FLAGS.torch_log_directory)) for n in range(4)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
    sys.exit(sum(worker.exitcode for worker in workers))
"""


def test_four_processes_lose_no_line_of_a_thousand_each(tmp_path: Path) -> None:
    done = _run(_MANY, f"--torch_log_directory={tmp_path}")
    assert done.returncode == 0, done.stderr[-2000:]
    expected = {f"worker {n} says {count}" for n in range(4) for count in range(1000)}
    for text in (_all(tmp_path), done.stderr):
        assert {match[1] for match in re.finditer(r"\] (worker \d says \d+)\n", text)} == expected
    assert len(list(tmp_path.iterdir())) == 4


_STEADY = """
import time
logging.setup()
begin = time.monotonic()
for count in range(2000):
    time.sleep(max(0, begin + count / 1000 - time.monotonic()))
    logging.info('worker %s says %d', os.environ['WORKER'], count)
"""


@pytest.mark.parametrize("native", ["--torch_log_native", "--notorch_log_native"])
def test_four_programs_at_a_thousand_lines_a_second_lose_none(tmp_path: Path, native: str) -> None:
    """Run four programs for two seconds, with a shared terminal and log files in one directory."""
    logs, terminal = tmp_path / "logs", tmp_path / "terminal"
    flags = [f"--torch_log_directory={logs}", "--verbosity=0", native]
    with open(terminal, "ab") as stderr:
        programs = [
            subprocess.Popen(
                [sys.executable, "-c", _START + _STEADY, *flags],
                stderr=stderr,
                env={**os.environ, "WORKER": str(number)},
            )
            for number in range(4)
        ]
        assert [program.wait(timeout=300) for program in programs] == [0] * 4
    expected = sorted(f"worker {n} says {count}" for n in range(4) for count in range(2000))
    for text in (_all(logs), terminal.read_text()):
        assert sorted(re.findall(r"\] (worker \d says \d+)\n", text)) == expected
    assert len(list(logs.iterdir())) == 4


def test_traces_are_in_a_remote_store_at_exit() -> None:
    program = (
        "import atexit\n"
        "from torch_google import gfile\n"
        "atexit.register(lambda: print([len(gfile.Open(p).read()) > 100 "
        "for p in gfile.Glob('memory://traces/*')]))\n"
        "os.environ['TORCH_TRACE'] = 'memory://traces'\n"
        "import torch\n"
        "import torch_google.hooks.logs as hooks\n"
        "hooks.install()\n"
        "torch.compile(lambda x: x + 1, backend='eager')(torch.ones(1))\n"
    )
    done = _run(program)
    assert (done.returncode, done.stdout) == (0, "[True]\n"), done.stderr
