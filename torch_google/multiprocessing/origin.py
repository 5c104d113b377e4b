# SPDX-License-Identifier: Apache-2.0
"""What a process hands to its children, and how a child begins, whichever way it was started.

multiprocessing copies the configuration of a process to each child: by memory when it forks, pickled
otherwise. An `Origin` stands in it. Where it arrives by pickle it brings this module with it, so that no
child begins without, whatever its main module imports; and `begin` runs in each child, of any class,
right before the child's own function, when all modules that it needs are imported.
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
    """What children of this process get: where it lives and listens, and its command line."""

    def __init__(self, argv: Sequence[str] | None) -> None:
        """Hand down `argv`, or no flags and no log set-up when None."""
        self.argv = argv
        self._arrived: tuple[lifeline.Line, bytes] | None = None
        util.register_after_fork(self, Origin.begin)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled for a child of the process that pickles, which is not always the one that made it."""
        return _arrive, (self.argv, lifeline.line(), reports.listener().address)

    def arrive(self, line: lifeline.Line, address: bytes) -> None:
        """Note whose child this process is."""
        self._arrived = line, address

    def begin(self) -> None:
        """Begin as a child: hang on the parent, report to it, then flags and the log as it has them.

        A child that cannot begin so does not run: it prints why and ends with status 1.
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
        except BaseException:  # noqa: BLE001  # multiprocessing would pass over it
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)


def install(argv: Sequence[str] | None = None) -> None:
    """Have the children of this process begin as `Origin.begin` says.

    Calling it again changes nothing, except that an `argv` that was None may become one.
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
    """What a child needs to find is there before it is."""
    lifeline.line()
    reports.listener()


def _forget() -> None:
    lifeline.forget()
    reports.forget()


def _arrive(argv: Sequence[str] | None, line: lifeline.Line, address: bytes) -> Origin:
    """Make the origin of a process that was started afresh."""
    origin = Origin(argv)
    origin.arrive(line, address)
    # A forkserver's child runs what was registered, as a forked one does; a spawned one only this.
    context.SpawnProcess._after_fork = staticmethod(origin.begin)  # type: ignore[attr-defined]
    _follow_forks()
    return origin


def _set_up(argv: Sequence[str]) -> None:
    from torch_google.multiprocessing import main

    main.set_up_child(argv)


def _reporting(run: Callable[[], object]) -> Callable[[], None]:
    """Return `run`, with its exception told to the parent, which logs it, instead of printed here."""

    def reporting() -> None:
        try:
            run()
        except SystemExit as end:
            if end.code is None or isinstance(end.code, int):
                raise
            reports.report(str(end.code))  # a text: Python would print it
            sys.exit(1)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001  # reported, then the status of a failure
            reports.report(traceback.format_exc())
            sys.exit(1)

    return reporting
