# SPDX-License-Identifier: Apache-2.0
"""A program that starts children in every supported way, for the tests.

Run it as `python -m torch_google.multiprocessing.testing.process_scenarios SCENARIO`. In the
scenarios that a test kills, each process prints its id, then sleeps in C code that holds the GIL.
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
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from absl import flags

from torch_google import logging as stream
from torch_google import multiprocessing as processes
from torch_google.multiprocessing import reports

FLAGS = flags.FLAGS

_STATUS = flags.DEFINE_integer("status", 0, "The exit status of children.")
_TEXT = flags.DEFINE_string("text", "not given", "The text that children log.")
_METHOD = flags.DEFINE_string(
    "method", None, "The start method of some children; None: the default."
)

_SCENARIOS: dict[str, Callable[[], int | None]] = {}


def scenario(function: Callable[[], int | None]) -> Callable[[], int | None]:
    """Register a function as a scenario, under its own name."""
    _SCENARIOS[function.__name__] = function
    return function


def main(argv: list[str]) -> int | None:
    """Run the scenario named by the first argument."""
    return _SCENARIOS[argv[1]]()


@scenario
def flags_and_log() -> None:
    """Start children that log a flag, with the default start method."""
    processes.spawn(talk, nprocs=2, name="talker")
    stream.info("the parent says %s by %s", _TEXT.value, multiprocessing.get_start_method())


@scenario
def status() -> int:
    """Start a child that exits with a nonzero status."""
    try:
        processes.spawn(leave, nprocs=1)
    except processes.ProcessFailedError as error:
        return error.exitcode
    return 0


@scenario
def status_text() -> None:
    """Start a child that exits with a string as its status."""
    processes.spawn(leave_with_text, nprocs=1)


@scenario
def uncaught() -> None:
    """Start a child whose exception terminates the program."""
    processes.spawn(fail, nprocs=2, name="child")


@scenario
def plain() -> int | None:
    """Start a failing child with multiprocessing's own Process class."""
    child = multiprocessing.Process(target=fail, args=(0,), name="plain-child")
    child.start()
    child.join()
    return child.exitcode


@scenario
def ends_at_once() -> None:
    """Start a child and a grandchild that both fail, without waiting for them.

    A parent takes half a second to log its child's report, and must not exit before that.
    """
    fail_below(2)


@scenario
def crash() -> None:
    """Start a child that crashes in C code."""
    processes.spawn(crash_in_c, nprocs=1, name="crasher")


@scenario
def nested() -> None:
    """Start a child that starts another process."""
    processes.spawn(talk_with_child, nprocs=1, name="outer")


@scenario
def kill_me() -> None:
    """Start a child and a grandchild that sleep in C code."""
    _start(processes.Process(hold_with_child, start_method=_METHOD.value))


@scenario
def kill_me_plain() -> None:
    """Start a sleeping multiprocessing.Process from a thread that then exits."""
    child = multiprocessing.get_context(_METHOD.value).Process(target=hold_with_child)
    thread = threading.Thread(target=child.start)
    thread.start()
    thread.join()
    time.sleep(1000)


@scenario
def kill_my_loader() -> None:
    """Start DataLoader workers that sleep in C code."""
    for _ in _loader(Holding()):
        pass


@scenario
def kill_my_workers() -> None:
    """Start elastic workers that sleep in C code."""
    processes.launch(hold_as_rank, nproc_per_node=2)


@scenario
def hold_under_torchrun() -> None:
    """Sleep in C code. The test starts this scenario with torchrun."""
    hold()


@scenario
def siblings() -> None:
    """Start a child that outlives the thread that started it.

    It also outlives its siblings and a forked copy of its parent.
    """
    others_ended = multiprocessing.get_context(_METHOD.value).Event()
    long = processes.Process(talk_after, (others_ended,), start_method=_METHOD.value)
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
    others_ended.set()
    long.join()


@scenario
def loader() -> None:
    """Run two DataLoader workers, with the default start method."""
    total = sum(int(batch.sum()) for batch in _loader(Squares()))
    stream.info("total %d", total)


@scenario
def loader_raises() -> None:
    """Raise an exception in a DataLoader worker."""
    list(_loader(Raising()))


@scenario
def loader_crashes() -> None:
    """Crash in a DataLoader worker."""
    list(_loader(Crashing()))


@scenario
def isolated() -> None:
    """Call a function in a child process, as torch's ONNX exporter does to survive crashes."""
    from torch.onnx._internal.exporter import _isolated

    parent: int = _isolated.safe_call(os.getppid)
    stream.info("isolated in a child: %s", parent == os.getpid())


@scenario
def rank() -> int:
    """Print the rank. With --nproc_per_node, this runs in several elastic workers."""
    os.write(1, f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}\n".encode())
    return _STATUS.value or 0


@scenario
def elastic() -> None:
    """Run two elastic workers, one of which fails once."""
    results = processes.launch(fail_once, _TEXT.value, nproc_per_node=2, max_restarts=1)
    stream.info("results %s", results)


@scenario
def elastic_fails() -> None:
    """Run two elastic workers, one of which always fails."""
    processes.launch(fail_always, nproc_per_node=2, max_restarts=1)


@scenario
def elastic_crashes() -> None:
    """Run an elastic worker that crashes in C code."""
    processes.launch(crash_in_c, 0, nproc_per_node=1)


def talk(index: int) -> None:
    """Log a flag and the start method."""
    stream.info("child %d says %s by %s", index, _TEXT.value, multiprocessing.get_start_method())


def leave(index: int) -> None:
    """Exit with the status that a flag specifies."""
    del index
    sys.exit(_STATUS.value)


def leave_with_text(index: int) -> None:
    """Exit with a string as the status."""
    sys.exit(f"child {index} has nothing to do")


def fail(index: int) -> None:
    """Raise an exception in the first child; wait to be terminated in the others."""
    if index:
        time.sleep(1000)
    raise ValueError(f"child {index} says no")


def fail_below(depth: int) -> None:
    """If `depth` is not 0, start a child that calls this function with `depth - 1`. Then fail."""
    logging.getLogger(reports.LOGGER).addFilter(_take_long)
    if depth:
        below = multiprocessing.Process(
            target=fail_below, args=(depth - 1,), name=f"depth-{depth - 1}"
        )
        below.start()
    raise ValueError(f"depth {depth} says no")


def arrive(index: int, directory: str) -> None:
    """Write the process id to a file named `index`, and sleep.

    The second child instead waits for the first child's file, and fails.
    """
    Path(directory, str(index)).write_text(str(os.getpid()))
    if index == 1:
        while not Path(directory, "0").exists():
            time.sleep(0.01)
        raise ValueError("the second says no")
    time.sleep(1000)


def crash_in_c(index: int) -> None:
    """Crash by reading from address 0."""
    del index
    ctypes.string_at(0)


def talk_after(others_ended: Event) -> None:
    """Log after the other children have exited."""
    others_ended.wait()
    talk(0)


def talk_with_child(index: int) -> None:
    """Log, and start a child that logs."""
    talk(index)
    processes.spawn(talk, nprocs=1, name="inner")


def hold() -> None:
    """Print the process id, then sleep in C code that holds the GIL."""
    os.write(1, f"{os.getpid()}\n".encode())  # one write, because other processes share the pipe
    ctypes.PyDLL(None).sleep(1000)


def hold_with_child() -> None:
    """Start a child that runs `hold`, then run `hold` in this process."""
    _start(processes.Process(hold, start_method=_METHOD.value), wait=False)
    hold()


def hold_as_rank() -> None:
    """Call `hold`. Elastic workers run this function."""
    hold()


def fail_once(text: str) -> str:
    """Fail in rank 1 on the first attempt. Otherwise, return a string.

    Also fail if the store contains what the first attempt wrote.
    """
    from torch import distributed

    distributed.init_process_group("gloo")
    store = distributed.distributed_c10d._get_default_store()
    if store.check(["failed"]):
        raise ValueError("found the store of the first attempt")
    rank = distributed.get_rank()
    fails = rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    distributed.barrier()  # rank 0 has checked the store
    if fails:
        store.set("failed", "")
    distributed.barrier()  # rank 0 has the store, so it must not end earlier
    if fails:
        raise ValueError("not at the first attempt")
    return f"{text} {FLAGS.text} {rank} of {os.environ['WORLD_SIZE']}"


def fail_always() -> None:
    """Fail in rank 1; wait to be terminated in the other rank."""
    if os.environ["RANK"] == "1":
        raise ValueError("never")
    time.sleep(1000)


class Squares:
    """A dataset with the squares of 0 to 9."""

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> int:
        stream.log_first_n(stream.INFO, "worker says %s", 1, _TEXT.value)
        return index * index


class Raising(Squares):
    """A dataset whose items raise an exception."""

    def __getitem__(self, index: int) -> int:
        raise ValueError(f"no item {index}")


class Crashing(Squares):
    """A dataset whose items crash the process in C code."""

    def __getitem__(self, index: int) -> int:
        crash_in_c(index)
        return index


class Holding(Squares):
    """A dataset whose items sleep in C code that holds the GIL."""

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
