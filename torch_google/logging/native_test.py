# SPDX-License-Identifier: Apache-2.0
"""C++ messages become log records, other text passes through, and no text is lost in a crash."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_google.logging import native

_LINE = b"[W1121 18:27:56.372313983 socket.cpp:955] [c10d] no route\n"


def test_a_message_has_severity_file_and_line() -> None:
    record = native.parse(_LINE, 7)
    assert record is not None
    assert (record.levelno, record.filename, record.lineno) == (logging.WARNING, "socket.cpp", 955)
    assert (record.getMessage(), record.process, record.name) == ("[c10d] no route", 7, "torch.cpp")


@pytest.mark.parametrize(
    "text", [b"plain\n", b"[W] x\n", b"W1121 18:27:56.372313 140 train.py:1] ours\n", b"\n", b""]
)
def test_other_text_is_no_message(text: bytes) -> None:
    assert native.parse(text, 1) is None


def test_a_rank_before_the_message_is_read() -> None:
    record = native.parse(b"[rank3]:" + _LINE, 1)
    assert record is not None
    assert record.getMessage() == "[c10d] no route"


@given(st.lists(st.sampled_from([b"a\n", b"{\n", _LINE, b"E1121 01:02:03.4 1 f.py:1] x\n", b"z"])))
def test_cutting_loses_nothing(lines: list[bytes]) -> None:
    text = b"".join(lines)
    parts = native._parts(text)
    assert b"".join(part for _, part in parts) == text
    assert [text[start : start + len(part)] for start, part in parts] == [part for _, part in parts]


class _Terminal:
    """A relay that runs in a thread of this process and reads a pipe.

    `sink` is the write end of the pipe. `text` collects the output, with a line `<MESSAGE>` for
    each record.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        monkeypatch.setattr(native, "_LINE_SECONDS", seconds)
        monkeypatch.setattr(native, "_write", self._add)
        self.text = b""
        self._changed = threading.Condition()
        source, self.sink = os.pipe()
        self._thread = threading.Thread(target=native._copy, args=(source, 1, self._log))
        self._thread.start()

    def wait_for(self, text: bytes) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: text in self.text, 300), self.text

    def end(self) -> bytes:
        os.close(self.sink)
        self._thread.join(300)
        return self.text

    def _add(self, data: bytes) -> None:
        with self._changed:
            self.text += data
            self._changed.notify_all()

    def _log(self, record: logging.LogRecord) -> None:
        self._add(f"<{record.getMessage()}>\n".encode())


_FOREVER = 1e6


def test_an_unfinished_line_waits_for_its_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal(monkeypatch, _FOREVER)
    os.write(terminal.sink, b"whole\nhalf")
    terminal.wait_for(b"whole\n")
    assert terminal.text == b"whole\n"
    os.write(terminal.sink, b" a line\n10 %\r")
    terminal.wait_for(b"10 %\r")
    assert terminal.end() == b"whole\nhalf a line\n10 %\r"


def test_an_unfinished_line_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal(monkeypatch, 0)
    os.write(terminal.sink, b"Continue? ")
    terminal.wait_for(b"Continue? ")
    assert terminal.end() == b"Continue? "


@pytest.mark.parametrize("unfinished", [b"half", b"10 %\r"])
def test_a_record_begins_a_line(monkeypatch: pytest.MonkeyPatch, unfinished: bytes) -> None:
    terminal = _Terminal(monkeypatch, 0)
    os.write(terminal.sink, unfinished)
    terminal.wait_for(unfinished)
    os.write(terminal.sink, _LINE)
    terminal.wait_for(b"route")
    os.write(terminal.sink, b"the rest\n")
    assert terminal.end() == unfinished + b"\n<[c10d] no route>\nthe rest\n"


def test_an_unfinished_message_is_a_record_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal(monkeypatch, 0)
    os.write(terminal.sink, b"before\n" + _LINE[:-1])
    terminal.wait_for(b"before")
    os.write(terminal.sink, b"\nsecond")
    assert terminal.end() == b"before\n<[c10d] no route\nsecond>\n"


def test_a_long_unfinished_line_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal(monkeypatch, _FOREVER)
    os.write(terminal.sink, b"x" * 50_000)
    os.write(terminal.sink, b"y" * 50_000)
    terminal.wait_for(b"x" * 50_000 + b"y" * 50_000)
    terminal.end()


_PROGRAM = """
import os, sys, signal
from absl import flags
from torch_google import logging
flags.FLAGS(['x'])
logging.setup(native=True)
os.write(2, b'[E1121 18:27:56.372313983 a.cpp:5] first\\nits second line\\n')
os.write(2, b'half')
os.write(2, b' plain\\n')
sys.stderr.write('python\\n')
"""


def _run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("os._exit(4)", 4),
        ("os.kill(os.getpid(), signal.SIGKILL)", -9),
        ("os.abort()", -6),
        ("raise ValueError('python dies')", 1),
    ],
)
def test_everything_arrives_whatever_the_end(end: str, status: int) -> None:
    done = _run(_PROGRAM + end)
    assert done.returncode == status
    first, *_ = [line for line in done.stderr.splitlines() if "first" in line]
    assert first.startswith("E")
    assert " a.cpp:5] first" in first
    for text in ("its second line", "half plain", "python"):
        assert text in done.stderr


def test_no_record_is_within_a_line_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a line in two pieces, as the interpreter does for the last line of a traceback."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    done = _run(
        _PROGRAM
        + "import time\n"
        + "sys.stderr.write('ValueError: ')\n"
        + f"os.write(2, {_LINE!r})\n"
        + "time.sleep(1)\n"
        + "sys.stderr.write('python dies\\n')\n"
    )
    lines = done.stderr.splitlines()
    assert "ValueError: python dies" in lines
    assert [line[0] for line in lines if "no route" in line] == ["W"]


def test_an_unbuffered_program_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    done = _run(_PROGRAM + "sys.stderr.write('at once')\nos.kill(os.getpid(), signal.SIGKILL)")
    assert "at once" in done.stderr


def test_a_program_with_many_open_files_can_log() -> None:
    done = _run(
        "import os, resource\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3000, 3000))\n"
        "kept = [os.dup(1) for _ in range(2000)]\n" + _PROGRAM
    )
    assert " a.cpp:5] first" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("end", ["", "logging.fatal('of absl')\n"])
def test_what_is_critical_is_said_once(end: str) -> None:
    done = _run(
        _PROGRAM
        + "import logging as python_logging\n"
        + "python_logging.critical('of python')\n"
        + "os.write(2, b'[F1121 18:27:56.372313983 a.cpp:6] of native code\\n')\n"
        + end
    )
    for text in ("of python", "of native code", *(["of absl"] if end else [])):
        assert done.stderr.count(text) == 1


def test_a_process_that_is_forked_beside_a_busy_thread_can_log() -> None:
    done = _run(
        _PROGRAM
        + "import threading\n"
        + "over = []\n"
        + "def busy():\n"
        + "    while not over: logging.warning('busy')\n"
        + "thread = threading.Thread(target=busy)\n"
        + "thread.start()\n"
        + "for number in range(30):\n"
        + "    child = os.fork()\n"
        + "    if child == 0:\n"
        + "        signal.alarm(20)\n"
        + "        logging.warning('child %d', number)\n"
        + "        os._exit(0)\n"
        + "    if os.waitpid(child, 0)[1]: over.append('a child hangs')\n"
        + "    if over: break\n"
        + "over.append('')\n"
        + "thread.join()\n"
        + "sys.exit(over[0] or 0)\n"
    )
    assert done.returncode == 0, done.stderr[-300:]
    assert done.stderr.count("] child ") == 30


def test_nuls_do_not_pass() -> None:
    done = _run(_PROGRAM + f"os.write(2, b'crashed\\n\\0')\nos.write(2, {_LINE!r})\n")
    assert "crashed\n" in done.stderr
    assert "no route" in done.stderr
    assert "\0" not in done.stderr


def test_much_from_native_code_that_holds_the_lock_does_not_block() -> None:
    """C++ code that holds the GIL fills the pipe, so only a separate process can read it."""
    done = _run(
        _PROGRAM
        + "import ctypes\n"
        + "data = b'x' * 99 + b'\\n'\n"
        + "libc = ctypes.PyDLL(None)  # keeps the interpreter's lock\n"
        + "for _ in range(20): libc.write(2, data * 1000, 100_000)\n"
    )
    assert done.returncode == 0
    assert done.stderr.count("x" * 99) == 20_000


def test_the_descriptor_is_given_back() -> None:
    before = os.fstat(2)
    relay = native.Relay(lambda record: None, lambda: None)
    assert os.fstat(2).st_ino != before.st_ino
    relay.stop()
    assert os.fstat(2).st_ino == before.st_ino


def test_a_program_that_waits_for_all_its_children_can_stop() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        relay = native.Relay(lambda record: None, lambda: None)
        relay.stop()
    finally:
        signal.signal(signal.SIGCHLD, before)
