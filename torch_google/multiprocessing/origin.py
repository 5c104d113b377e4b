# SPDX-License-Identifier: Apache-2.0
"""Set up child processes, for every start method, using data that their parent passes on.

multiprocessing passes a process's configuration to each child: in memory if it forks, otherwise
pickled. `install` stores an `Origin` in that configuration. Unpickling it imports this module, even
if the child's main module does not. `begin` then runs in each child, for any Process class, after
all imports and right before the child's own function.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import context, util
from typing import Any

from torch_google.multiprocessing import lifeline, reports

_KEY = "torch_google.multiprocessing"


class Origin:
    """The data that a parent passes to children: lifeline, listener address and command line.

    lifeline.py explains the lifeline, and reports.py the listener.
    """

    def __init__(self, argv: Sequence[str] | None) -> None:
        """Store `argv` for the children. If None, they neither parse flags nor set up logging."""
        self.argv = argv
        self._arrived: tuple[lifeline.Line, bytes] | None = None
        util.register_after_fork(self, Origin.begin)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle this object with the current process's lifeline and listener."""
        return _arrive, (self.argv, lifeline.line(), reports.listener().address)

    def arrive(self, line: lifeline.Line, address: bytes) -> None:
        """Store the parent's data after unpickling."""
        self._arrived = line, address

    def begin(self) -> None:
        """Set up a child: it ends with its parent, reports to it, and has its flags and log.

        If this fails, the child prints the error and exits with status 1.
        """
        try:
            arrived, self._arrived = self._arrived, None
            line, address = arrived or (lifeline.inherited(), reports.inherited())
            process = multiprocessing.current_process()
            lifeline.hang_on(line)
            reports.connect(address, process.name)
            if arrived and self.argv is not None:
                _set_up(self.argv)
                reports.watch_faults()
            process.run = _reporting(process.run)  # type: ignore[method-assign]
        except BaseException:  # noqa: BLE001  # multiprocessing would ignore it
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)


def install(argv: Sequence[str] | None = None) -> None:
    """Make the children of this process run `Origin.begin`.

    A later call has no effect, except that an `argv` other than None replaces the earlier one.
    """
    configuration: dict[str, Any] = vars(multiprocessing.current_process())["_config"]
    origin = configuration.get(_KEY)
    if origin is None:
        configuration[_KEY] = Origin(argv)
        _follow_forks()
    elif argv is not None:
        origin.argv = argv


_following = False


def _follow_forks() -> None:
    global _following
    if not _following:
        _following = True
        os.register_at_fork(before=_prepare, after_in_child=_forget)


def _prepare() -> None:
    """Create the lifeline and the listener before a fork, because the child inherits them."""
    lifeline.line()
    reports.listener()


def _forget() -> None:
    lifeline.forget()
    reports.forget()


def _arrive(argv: Sequence[str] | None, line: lifeline.Line, address: bytes) -> Origin:
    """Recreate the parent's Origin in a child that was not forked. Called by pickle."""
    origin = Origin(argv)
    origin.arrive(line, address)
    # A forkserver's child runs the functions registered with register_after_fork. A spawned child
    # runs only SpawnProcess._after_fork.
    context.SpawnProcess._after_fork = staticmethod(origin.begin)  # type: ignore[attr-defined]
    _follow_forks()
    return origin


def _set_up(argv: Sequence[str]) -> None:
    from torch_google.multiprocessing import main

    main.set_up_child(argv)


def _reporting(run: Callable[[], object]) -> Callable[[], None]:
    """Wrap `run` so that an exception is logged by the parent, not printed by this process."""

    def reporting() -> None:
        try:
            run()
        except SystemExit as end:
            if end.code is None or isinstance(end.code, int):
                raise
            reports.report(str(end.code))  # otherwise, Python would print this string
            sys.exit(1)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001  # reported, then exits with a failure status
            reports.report(traceback.format_exc())
            sys.exit(1)

    return reporting
