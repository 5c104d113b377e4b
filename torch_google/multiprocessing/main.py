# SPDX-License-Identifier: Apache-2.0
"""Run a multiprocess program: set up its flags, log and default start method."""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NoReturn

from absl import app, flags

from torch_google import logging as stream
from torch_google.flags import parse
from torch_google.multiprocessing import lifeline, options, origin, reports

FLAGS = flags.FLAGS

Main = Callable[[list[str]], int | None]

# Flags of absl.app that apply only to the main process, with the values that they get in children.
_FOR_MAIN_ONLY = {
    "only_check_args": False,
    "pdb_post_mortem": False,
    "profile_file": None,
    "run_with_pdb": False,
    "run_with_profiling": False,
}


def handle_main(
    main: Main,
    *,
    argv: Sequence[str] | None = None,
    elastic: bool = False,
    known_only: bool = False,
) -> NoReturn:
    """Run a program; call this under `if __name__ == "__main__":`, instead of `absl.app.run(main)`.

    Parses the flags, sets up the log, and then calls `main(remaining arguments)`. The result of
    `main` is the exit status. If `main` raises, the exception is logged, and the status is 1.
    Processes started by multiprocessing, torch.multiprocessing or a DataLoader have the same flags
    and log, and are killed when this process exits. `--multiprocessing_start_method` sets their
    default start method.

    Args:
      main: the program.
      argv: the command line; the default is sys.argv.
      elastic: also accept torchrun's flags. With `--nproc_per_node=N`, `main` runs in N
        processes. If torchrun started the program, `main` runs in this process.
      known_only: pass undefined flags to `main` with the remaining arguments.
    """
    line = list(sys.argv if argv is None else argv)
    _define_flags()
    if elastic:
        options.define_elastic_flags()
    app.call_after_init(lambda: _begin(line))
    app.run(
        _Elastic(main) if elastic else main,
        line,
        flags_parser=_parse_known if known_only else parse,
    )
    raise AssertionError("absl's app.run ends the process")


def handle_test_main(test_main: Callable[..., Any], *args: Any, **kwargs: Any) -> NoReturn:
    """Run tests. Call it as `handle_test_main(absltest.main)`, or with pytest.main and arguments.

    It works like `handle_main`, but removes flags from sys.argv before it calls `test_main`, unless
    that is absltest.main, which parses flags itself.
    """
    line = list(sys.argv)
    _define_flags()
    app.call_after_init(lambda: _begin(line))
    if getattr(test_main, "__module__", "").startswith("absl."):
        sys.exit(test_main(*args, **kwargs))

    def run(rest: list[str]) -> int | None:
        sys.argv[:] = rest
        status: int | None = test_main(*args, **kwargs)
        return status

    app.run(run, line, flags_parser=_parse_known)
    raise AssertionError("absl's app.run ends the process")


def set_up_child(argv: Sequence[str]) -> None:
    """Parse the parent's command line and set up the log in a child that was not forked.

    Flags that this process does not define are ignored, because the parent's main module may have
    defined them.
    """
    _define_flags()
    try:
        app.run(_nothing, list(argv), flags_parser=_parse_for_child)
    except SystemExit as end:
        if end.code:
            raise
    # Start no relay: descriptor 2 is inherited, so C++ messages reach the parent's relay.
    stream.setup(native=False)


class _Elastic:
    """A wrapper around `main` that runs it in as many processes as the flags specify."""

    def __init__(self, main: Main) -> None:
        self._main = main

    def __call__(self, argv: list[str]) -> int | None:
        if not FLAGS.nproc_per_node or _under_torchrun():
            return self._main(argv)
        from torch_google.multiprocessing.elastic import launch

        launch(
            _Worker(self._main),
            argv,
            nproc_per_node=FLAGS.nproc_per_node,
            nnodes=FLAGS.nnodes,
            max_restarts=FLAGS.max_restarts,
            rdzv_endpoint=FLAGS.rdzv_endpoint,
            rdzv_backend=FLAGS.rdzv_backend,
            run_id=FLAGS.rdzv_id,
        )
        return 0


class _Worker:
    """A wrapper around `main` for elastic workers. It exits with the status that `main` returns."""

    def __init__(self, main: Main) -> None:
        self._main = main

    def __call__(self, argv: list[str]) -> None:
        status = self._main(argv)
        if status:
            sys.exit(status)


def _define_flags() -> None:
    stream.define_flags()
    options.define_flags()


def _begin(argv: list[str]) -> None:
    """After flags are parsed, set up the log, the start method and the setup of children."""
    stream.setup()
    sys.excepthook = _log_exception
    multiprocessing.set_start_method(FLAGS.multiprocessing_start_method, force=True)
    origin.install(argv)
    if _under_torchrun():
        lifeline.die_with_parent()


def _under_torchrun() -> bool:
    return "TORCHELASTIC_RUN_ID" in os.environ and multiprocessing.parent_process() is None


def _log_exception(
    kind: type[BaseException], value: BaseException, trace: TracebackType | None
) -> None:
    """Log the children's failure reports, then the exception that terminates the program."""
    reports.settle()
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, value, trace)
        return
    logging.getLogger(reports.LOGGER).error(
        "%s ended by an exception", os.path.basename(sys.argv[0]), exc_info=(kind, value, trace)
    )


def _parse_known(argv: Sequence[str]) -> list[str]:
    return parse(argv, known_only=True)


def _parse_for_child(argv: Sequence[str]) -> list[str]:
    rest = _parse_known(argv)
    for name, value in _FOR_MAIN_ONLY.items():
        setattr(FLAGS, name, value)
    return rest


def _nothing(argv: Sequence[str]) -> None:
    del argv
