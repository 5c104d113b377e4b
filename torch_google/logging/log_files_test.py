# SPDX-License-Identifier: Apache-2.0
"""Logs in remote stores neither lose nor duplicate records, whatever the store's client does."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fsspec.implementations.dirfs import DirFileSystem
from fsspec.implementations.local import LocalFileSystem

from torch_google import gfile
from torch_google.logging.log_files import LogFile, RemoteLog, remote_log


def _handlers(scheme: str) -> dict[str, Callable[[], logging.Handler]]:
    return {
        "a log of torch's": lambda: remote_log(f"{scheme}://torch.log"),
        "a log of the program": lambda: LogFile(f"{scheme}://logs", "program"),
    }


@pytest.mark.parametrize("which", ["a log of torch's", "a log of the program"])
def test_a_forked_process_overwrites_nothing(tmp_path: Path, which: str) -> None:
    scheme = "both" if which == "a log of torch's" else "each"
    gfile.register_scheme(scheme, DirFileSystem(str(tmp_path), LocalFileSystem()))
    handler = _handlers(scheme)[which]()

    def say(text: str) -> None:
        handler.handle(logging.makeLogRecord({"msg": text, "levelno": logging.WARNING}))

    say("before the fork")
    child = os.fork()
    if child == 0:
        say("in the child")
        handler.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    say("after the fork")
    handler.close()
    parts = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(parts) == ["before the fork\nafter the fork\n", "in the child\n"]


# The beginning of each test program. To upload, the store's client calls `upload`, which the rest
# of the program must define. `lines` returns the stored lines. The timeouts are long, so that even
# on a busy machine, no upload starts early and no thread stops waiting for one.
_STORE = """
import atexit, logging as python_logging, os, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from absl import app
from fsspec.implementations.memory import MemoryFileSystem
from torch_google import gfile, logging
from torch_google.logging import log_files

logging.define_flags()
log = python_logging.getLogger("client")
pool = ThreadPoolExecutor(1)
uploads = []

class Store(MemoryFileSystem):
    def pipe_file(self, path, value, **options):
        uploads.append(path)
        upload(len(uploads), lambda: MemoryFileSystem.pipe_file(self, path, value, **options))

def lines():
    parts = [gfile.Open(path).read() for path in gfile.Glob("test://logs/*")]
    return "".join(parts).splitlines()

gfile.register_scheme("test", Store())
gfile.configure(retry=gfile.Retry(first=0.01))
log_files.PART_SECONDS = log_files.URGENT_SECONDS = 600.0
"""


def _run(program: str) -> list[str]:
    """Run a program in a new process, with a timeout in case it hangs; return its output lines."""
    done = subprocess.run(
        [sys.executable, "-c", _STORE + program, "--verbosity=0"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_failure_that_passes_is_logged_to_the_log_that_failed() -> None:
    output = _run("""
def upload(count, go):
    if count == 1:
        raise ConnectionResetError("for once")
    go()

def main(argv):
    logging.setup(directory="test://logs", native=False)
    logging.error("urgent")
    print(*lines(), sep="\\n")
    logging.shutdown()
    print(*lines(), sep="\\n")

app.run(main)
""")
    first, again, retry = output
    assert first == again
    assert first.endswith("] urgent")
    assert "attempt 1 of 6" in retry


# Part of a test program. A thread pool's thread logs while the uploading thread waits for it.
_CHATTY = """
def work(count, go):
    log.info("upload %d begins", count)
    log.error("an error of the client")
    go()

def upload(count, go):
    pool.submit(work, count, go).result()
"""


def test_a_client_may_log_from_its_own_thread() -> None:
    output = _run(f"""
log_files.URGENT_SECONDS = 1.0
log_files.AGAIN_SECONDS = 60.0  # a loop without a pause would upload more than 9 parts
{_CHATTY}
def main(argv):
    logging.setup(directory="test://logs", native=False)
    logging.error("urgent")
    # The pool's thread logs and waits for the upload of its record, which needs that same thread.
    pool.submit(log.error, "urgent as well").result()
    logging.warning("patient")
    logging.shutdown()
    print(*[line.partition("] ")[2] for line in lines()], sep="\\n")
    print(len(uploads) < 9)

app.run(main)
""")
    assert [text for text in output if text.startswith(("urgent", "patient"))] == [
        "urgent",
        "urgent as well",
        "patient",
    ]
    assert output[-1] == "True"
    assert output.count("upload 1 begins") == 1


def test_a_client_may_log_when_python_shuts_logging_down() -> None:
    output = _run(f"""
log_files.URGENT_SECONDS = 0.1
{_CHATTY}
handler = log_files.remote_log("test://logs/torch")
python_logging.root.addHandler(handler)
python_logging.root.warning("patient")
python_logging.shutdown()
print(*lines(), sep="\\n")
""")
    assert "patient" in output
    assert "an error of the client" in output


def test_an_error_is_in_the_store_before_the_program_goes_on() -> None:
    output = _run("""
def upload(count, go):
    time.sleep(0.2)
    go()

def main(argv):
    logging.setup(directory="test://logs", native=False)
    logging.warning("patient")
    print(len(lines()))
    logging.error("urgent")
    print(len(lines()))

app.run(main)
""")
    assert output == ["0", "2"]


def test_errors_one_after_another_are_in_the_store_at_once() -> None:
    output = _run("""
log_files.AGAIN_SECONDS = 600.0

def upload(count, go):
    go()

def main(argv):
    logging.setup(directory="test://logs", native=False)
    for count in range(200):
        logging.error("urgent")
    print(len(uploads), len(lines()))

app.run(main)
""")
    assert output == ["200 200"]


def test_a_store_that_is_away_is_said_once_and_gets_everything_in_the_end() -> None:
    output = _run("""
log_files.PART_SECONDS = 0.05
gfile.configure(retry=gfile.Retry(attempts=1))
said = []
log_files._say = lambda text: said.append(text.partition(":")[0])

def upload(count, go):
    if count < 4:
        raise ConnectionResetError("away")
    go()

handler = log_files.LogFile("test://logs", "program")
for count in range(3):
    handler.handle(python_logging.makeLogRecord({"msg": f"{count}", "levelno": 40}))
while len(said) < 2:
    time.sleep(0.01)
print(*said, *lines(), sep="\\n")
""")
    assert output == [
        "the log is not written to its file from now on",
        "the log is written to its file again",
        "0",
        "1",
        "2",
    ]


def test_threads_and_failures_lose_and_repeat_nothing() -> None:
    output = _run("""
log_files.PART_SECONDS = log_files.AGAIN_SECONDS = 0.01
gfile.configure(retry=gfile.Retry(attempts=1))

def upload(count, go):
    if count % 3 == 0:
        raise ConnectionResetError("every third time")
    time.sleep(0.01)
    go()
    if count % 3 == 1:
        raise ConnectionResetError("the part is stored, but the response is lost")

def work(number):
    for count in range(100):
        handler.handle(python_logging.makeLogRecord(
            {"msg": f"{number} {count}", "levelno": 40 if count % 10 == 0 else 20}))

handler = log_files.LogFile("test://logs", "program")
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
while True:
    try:
        handler.flush()
        break
    except OSError:
        pass
handler.close()
print(*lines(), sep="\\n")
""")
    for number in range(4):
        own = [line for line in output if line.startswith(f"{number} ")]
        assert own == [f"{number} {count}" for count in range(100)]
    assert len(output) == 400


@pytest.mark.parametrize("make", [remote_log, RemoteLog])
def test_a_log_that_is_opened_again_goes_on(make: Callable[[str], RemoteLog]) -> None:
    path = f"memory://again/{make.__name__}"
    for number in range(3):
        handler = make(path)
        handler.handle(logging.makeLogRecord({"msg": str(number), "levelno": 20}))
        handler.close()
    parts = [f"{path}.{number:04}" for number in range(3)]
    assert [gfile.Open(part).read() for part in parts] == ["0\n", "1\n", "2\n"]


def test_logs_that_begin_in_the_same_second_have_parts_of_their_own() -> None:
    output = _run("""
log_files.file_name = lambda program: program

def upload(count, go):
    go()

def main(argv):
    for text in ("first", "second"):
        logging.setup(directory="test://logs", native=False, program="same")
        logging.warning(text)
    logging.shutdown()
    print(*[line.partition("] ")[2] for line in lines()], sep="\\n")

app.run(main)
""")
    assert output == ["first", "second"]
