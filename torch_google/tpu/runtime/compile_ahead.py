# SPDX-License-Identifier: Apache-2.0
"""Threads that compile programs before their first run.

In fused mode, operators run only when their trace is flushed. So while Python records a trace,
these threads compile the programs of its operators.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any


class Task:
    """A program to compile. Create tasks with `AheadCompiler.submit`."""

    def __init__(self, make: Callable[[], Any], compiler: AheadCompiler) -> None:
        self._make: Callable[[], Any] | None = make
        self._compiler = compiler
        self._is_running = False
        self._outcome: tuple[Any, Exception | None] | None = None

    @property
    def is_done(self) -> bool:
        """Whether the program is compiled, or the compiler has raised an error."""
        return self._outcome is not None

    @property
    def is_running(self) -> bool:
        """Whether a thread is compiling the program."""
        return self._is_running

    def result(self) -> Any:
        """Return the program, or raise the compiler's error. The next call then compiles it again.

        While it waits, this thread compiles programs.
        """
        self._compiler.finish(self)
        assert self._outcome is not None
        program, error = self._outcome
        if error is not None:
            self._outcome = None
            raise error
        return program

    def begin(self) -> None:
        """Mark the program as being compiled. The caller holds the compiler's lock."""
        self._is_running = True

    def run(self) -> None:
        """Compile the program. An interruption, such as Ctrl-C, leaves it to be compiled again."""
        assert self._make is not None
        try:
            self._outcome = self._make(), None
            self._make = None  # it refers to the lowered program
        except Exception as error:  # noqa: BLE001 - `result` raises it
            self._outcome = None, error
        finally:
            self._is_running = False


class AheadCompiler:
    """Daemon threads, started by the first task, that compile programs in the order of submission.

    At exit, the process drops the queued programs, and waits for those that are being compiled.
    """

    def __init__(self, name: str, threads: int) -> None:
        self._name = name
        self._count = threads
        self._changed = threading.Condition()
        self._queue: deque[Task] = deque()
        self._busy = 0
        self._is_closed = False
        self._threads: list[threading.Thread] = []

    def submit(self, make: Callable[[], Any]) -> Task:
        """Return a task that calls `make`, in one of the threads or in one that waits."""
        task = Task(make, self)
        with self._changed:
            if not self._threads and not self._is_closed:
                self._threads = [
                    threading.Thread(target=self._work, name=f"{self._name}-{i}", daemon=True)
                    for i in range(self._count)
                ]
                for thread in self._threads:
                    thread.start()
                atexit.register(self._close)
            self._queue.append(task)
            self._changed.notify_all()
        return task

    def wait(self) -> None:
        """Wait until no program is queued or being compiled."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or not (self._queue or self._busy))

    def finish(self, task: Task) -> None:
        """Compile a task in this thread, or others while another thread compiles it."""
        while not task.is_done:
            with self._changed:
                if not task.is_running:
                    mine = task
                    if task in self._queue:
                        self._queue.remove(task)
                elif self._queue:
                    mine = self._queue.popleft()
                else:
                    self._changed.wait_for(lambda: not task.is_running or self._queue)
                    continue
                self._begin(mine)
            self._run(mine)

    def _begin(self, task: Task) -> None:
        task.begin()
        self._busy += 1

    def _run(self, task: Task) -> None:
        try:
            task.run()
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._is_closed)
                if self._is_closed:
                    return
                task = self._queue.popleft()
                self._begin(task)
            self._run(task)
            del task

    def _close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._queue.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()


def _threads() -> int:
    """Return the number of threads, which leaves one core to the thread that records a trace."""
    return min(max(len(os.sched_getaffinity(0)) - 1, 1), 8)


AHEAD = AheadCompiler("tpu-compile-ahead", _threads())
"""Compiles the programs of operators in fused mode."""
