# SPDX-License-Identifier: Apache-2.0
"""A program for the tests: `python -m torch_google.multiprocessing.testing.process_scenarios SCENE`, each a way to have children.

Scenes that wait for kill print the ids of all that live, one line, and the last of them stays in C code
that holds the interpreter's lock.
"""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from absl import flags

from torch_google import logging as stream
from torch_google import multiprocessing as processes
from torch_google.multiprocessing import reports

FLAGS = flags.FLAGS

_STATUS = flags.DEFINE_integer("status", 0, "What children end with.")
_TEXT = flags.DEFINE_string("text", "not given", "What children log.")
_METHOD = flags.DEFINE_string(
    "method", None, "The start method of some children; None: the default."
)

_SCENARIOS: dict[str, Callable[[], int | None]] = {}


def scenario(function: Callable[[], int | None]) -> Callable[[], int | None]:
    """Make a function what `main` runs when the first argument is its name."""
    _SCENARIOS[function.__name__] = function
    return function


def main(argv: list[str]) -> int | None:
    """Run a scene."""
    return _SCENARIOS[argv[1]]()


@scenario
def flags_and_log() -> None:
    """A child that says what it knows, by the default method."""
    processes.spawn(talk, nprocs=2, name="talker")
    stream.info("the parent says %s by %s", _TEXT.value, multiprocessing.get_start_method())


@scenario
def status() -> int:
    """A child that ends with a status."""
    try:
        processes.spawn(leave, nprocs=1)
    except processes.ProcessFailedError as error:
        return error.exitcode
    return 0


@scenario
def status_text() -> None:
    """A child that ends with a text for a status."""
    processes.spawn(leave_with_text, nprocs=1)


@scenario
def uncaught() -> None:
    """A child's exception that ends the program."""
    processes.spawn(fail, nprocs=2, name="child")


@scenario
def plain() -> int | None:
    """A child of multiprocessing's own class that fails."""
    child = multiprocessing.Process(target=fail, args=(0,), name="plain-child")
    child.start()
    child.join()
    return child.exitcode


@scenario
def ends_at_once() -> None:
    """Children that fail, one of them a child's, where writing to the log takes long; nobody waits."""
    fail_below(2)


@scenario
def crash() -> None:
    """A child that crashes in C."""
    processes.spawn(crash_in_c, nprocs=1, name="crasher")


@scenario
def nested() -> None:
    """A child with a child."""
    processes.spawn(talk_with_child, nprocs=1, name="outer")


@scenario
def kill_me() -> None:
    """A child, and its child, in C code."""
    _start(processes.Process(hold_with_child, start_method=_METHOD.value))


@scenario
def kill_me_plain() -> None:
    """As `kill_me`, by multiprocessing's own class, started by a thread that has ended."""
    child = multiprocessing.get_context(_METHOD.value).Process(target=hold_with_child)
    thread = threading.Thread(target=child.start)
    thread.start()
    thread.join()
    time.sleep(1000)


@scenario
def kill_my_loader() -> None:
    """DataLoader workers in C code."""
    for _ in _loader(Holding()):
        pass


@scenario
def kill_my_workers() -> None:
    """Elastic workers in C code."""
    processes.launch(hold_as_rank, nproc_per_node=2)


@scenario
def hold_under_torchrun() -> None:
    """A program that torchrun starts: no child of multiprocessing."""
    hold()


@scenario
def siblings() -> None:
    """A child that outlives the death of another, of a thread that started it, and of a copy of us."""
    long = processes.Process(talk_late, start_method=_METHOD.value)
    thread = threading.Thread(target=long.start)
    thread.start()
    thread.join()
    for method in processes.START_METHODS:
        short = processes.Process(hold, start_method=method)
        short.start()
        time.sleep(0.2)
        short.kill()
    if os.fork() == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    os.wait()
    long.join()


@scenario
def loader() -> None:
    """Two DataLoader workers, by the default method."""
    total = sum(int(batch.sum()) for batch in _loader(Squares()))
    stream.info("total %d", total)


@scenario
def loader_raises() -> None:
    """An exception in a DataLoader worker."""
    list(_loader(Raising()))


@scenario
def loader_crashes() -> None:
    """A crash in a DataLoader worker."""
    list(_loader(Crashing()))


@scenario
def isolated() -> None:
    """What torch's ONNX exporter does to be safe from crashes."""
    from torch.onnx._internal.exporter import _isolated

    parent: int = _isolated.safe_call(os.getppid)
    stream.info("isolated in a child: %s", parent == os.getpid())


@scenario
def rank() -> int:
    """Main in each of several processes."""
    os.write(1, f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}\n".encode())
    return _STATUS.value or 0


@scenario
def elastic() -> None:
    """Two workers of which one fails once."""
    results = processes.launch(fail_once, _TEXT.value, nproc_per_node=2, max_restarts=1)
    stream.info("results %s", results)


@scenario
def elastic_fails() -> None:
    """Two workers of which one always fails."""
    processes.launch(fail_always, nproc_per_node=2, max_restarts=1)


@scenario
def elastic_crashes() -> None:
    """A worker that crashes in C."""
    processes.launch(crash_in_c, 0, nproc_per_node=1)


def talk(index: int) -> None:
    """Say which flags there are, in the log."""
    stream.info("child %d says %s by %s", index, _TEXT.value, multiprocessing.get_start_method())


def leave(index: int) -> None:
    """End with the status of the flag."""
    del index
    sys.exit(_STATUS.value)


def leave_with_text(index: int) -> None:
    """End with why."""
    sys.exit(f"child {index} has nothing to do")


def fail(index: int) -> None:
    """Raise, in the first; wait for the end in others."""
    if index:
        time.sleep(1000)
    raise ValueError(f"child {index} says no")


def fail_below(depth: int) -> None:
    """Start a child that does the same, `depth` deep, and fail at once."""
    logging.getLogger(reports.LOGGER).addFilter(_take_long)
    if depth:
        below = multiprocessing.Process(
            target=fail_below, args=(depth - 1,), name=f"depth-{depth - 1}"
        )
        below.start()
    raise ValueError(f"depth {depth} says no")


def arrive(index: int, directory: str) -> None:
    """Write one's id to a file; the second raises when the first has."""
    Path(directory, str(index)).write_text(str(os.getpid()))
    if index == 1:
        while not Path(directory, "0").exists():
            time.sleep(0.01)
        raise ValueError("the second says no")
    time.sleep(1000)


def crash_in_c(index: int) -> None:
    """Read memory that is not there."""
    del index
    ctypes.string_at(0)


def talk_late() -> None:
    """Talk, when everything else is over."""
    time.sleep(3)
    talk(0)


def talk_with_child(index: int) -> None:
    """Have a child that talks."""
    talk(index)
    processes.spawn(talk, nprocs=1, name="inner")


def hold() -> None:
    """Say that it lives, then sleep in C, with the interpreter's lock."""
    os.write(1, f"{os.getpid()}\n".encode())  # at once: others write there too
    ctypes.PyDLL(None).sleep(1000)


def hold_with_child() -> None:
    """Hold, with a child that does."""
    _start(processes.Process(hold, start_method=_METHOD.value), wait=False)
    hold()


def hold_as_rank() -> None:
    """Hold, as one of several."""
    hold()


def fail_once(text: str) -> str:
    """Fail in the first attempt, then answer."""
    rank = int(os.environ["RANK"])
    if rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        raise ValueError("not at the first attempt")
    return f"{text} {FLAGS.text} {rank} of {os.environ['WORLD_SIZE']}"


def fail_always() -> None:
    """Fail, as rank 1; the other waits for its end."""
    if os.environ["RANK"] == "1":
        raise ValueError("never")
    time.sleep(1000)


class Squares:
    """The squares of 0..9."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> int:
        stream.log_first_n(stream.INFO, "worker says %s", 1, _TEXT.value)
        return index * index


class Raising(Squares):
    """Raises."""

    def __getitem__(self, index: int) -> int:
        raise ValueError(f"no item {index}")


class Crashing(Squares):
    """Crashes in C."""

    def __getitem__(self, index: int) -> int:
        crash_in_c(index)
        return index


class Holding(Squares):
    """Sleeps in C, with the interpreter's lock."""

    def __getitem__(self, index: int) -> int:
        hold()
        return index


def _loader(data: Squares) -> Iterable[Any]:
    from torch.utils.data import DataLoader

    return DataLoader(
        data,
        batch_size=5,
        num_workers=2,
        multiprocessing_context=_METHOD.value,
    )


def _take_long(record: logging.LogRecord) -> bool:
    del record
    time.sleep(0.5)
    return True


def _start(child: processes.Process, *, wait: bool = True) -> None:
    child.start()
    if wait:
        child.join()


if __name__ == "__main__":
    processes.handle_main(main, elastic=True)
