# SPDX-License-Identifier: Apache-2.0
"""Run a function in processes that are restarted together, as torchrun does with a program."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from torch_google.multiprocessing import origin, reports
from torch_google.multiprocessing.process import ProcessFailedError

# torchrun's default run id. It cannot be random, because it must be the same on all machines.
_EVERY_JOB = "none"


def launch(
    main: Callable[..., Any],
    *args: Any,
    nproc_per_node: int,
    nnodes: str = "1",
    max_restarts: int = 0,
    rdzv_endpoint: str = "",
    rdzv_backend: str = "c10d",
    run_id: str = "",
    start_method: str | None = None,
    role: str = "worker",
) -> dict[int, Any]:
    """Run `main(*args)` in `nproc_per_node` local processes like torchrun; return results by rank.

    Each process has RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and so on in its environment, so
    `init_process_group` needs no arguments. If a process fails, all processes are restarted, up to
    `max_restarts` times. After that, a failure raises ProcessFailedError for the process that
    failed first. The traceback of every failure is logged.

    `nnodes` is the number of machines, N or MIN:MAX. They find each other at `rdzv_endpoint`,
    HOST:PORT; if it is empty, only this machine participates. `run_id` distinguishes jobs that
    share an endpoint, and must be the same on all of a job's machines. `start_method` defaults to
    the program's start method.
    """
    # Import these only here, because they load most of torch.distributed.
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    fewest, most = _machines(nnodes)
    if most > 1 and not rdzv_endpoint:
        raise ValueError(
            f"launch: nnodes is {nnodes!r}, and the machines have no endpoint to meet at; give "
            "rdzv_endpoint as HOST:PORT, the same on all of them"
        )
    origin.install()
    with tempfile.TemporaryDirectory(prefix="torch_google_elastic.") as directory:
        config = LaunchConfig(
            min_nodes=fewest,
            max_nodes=most,
            nproc_per_node=nproc_per_node,
            run_id=run_id or (_EVERY_JOB if rdzv_endpoint else uuid.uuid4().hex),
            role=role,
            rdzv_endpoint=rdzv_endpoint or "localhost:0",
            rdzv_backend=rdzv_backend,
            max_restarts=max_restarts,
            start_method=start_method or multiprocessing.get_start_method(),
            logs_specs=DefaultLogsSpecs(directory),
        )
        restarts = max_restarts > 0 or fewest != most
        try:
            with _separate_stores() if restarts else contextlib.nullcontext():
                results: dict[int, Any] = elastic_launch(config, _Entry(main))(*args)
        except ChildFailedError as error:
            raise _failed(role, error) from None
    return dict(sorted(results.items()))


@contextlib.contextmanager
def _separate_stores() -> Iterator[None]:
    """Make torch's elastic launcher create a key-value store for each attempt.

    By default, all attempts share one store, so init_process_group may read the addresses of
    processes that no longer exist, and fail (pytorch issue 135712).
    """
    name = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
    if name in os.environ:
        yield
        return
    os.environ[name] = "1"
    try:
        yield
    finally:
        del os.environ[name]


class _Entry:
    """The function that elastic runs: it undoes some of elastic's settings and calls `main`.

    For example, elastic redirects faulthandler to stderr instead of the connection to the parent.
    """

    def __init__(self, main: Callable[..., Any]) -> None:
        self._main = main
        self.__name__ = getattr(main, "__name__", type(main).__name__)
        self.__qualname__ = getattr(main, "__qualname__", self.__name__)

    def __call__(self, *args: Any) -> Any:
        reports.watch_faults()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            # A forked worker inherits the agent's Python signal handlers, which cannot run while C
            # code is running. So a worker in C code would not react to elastic's signals.
            signal.signal(number, signal.SIG_DFL)
        return self._main(*args)


def _machines(nnodes: str) -> tuple[int, int]:
    fewest, _, most = nnodes.partition(":")
    try:
        return int(fewest), int(most or fewest)
    except ValueError:
        raise ValueError(
            f"launch: nnodes is {nnodes!r}; write a number of machines, or MIN:MAX"
        ) from None


def _failed(role: str, error: Any) -> ProcessFailedError:
    """Convert elastic's exception to ours, and add the traceback that elastic lacks for a crash."""
    rank, failure = error.get_first_failure()
    traceback = reports.listener().take(failure.pid)
    if not traceback and isinstance(failure.message, dict):
        traceback = failure.message.get("extraInfo", {}).get("py_callstack", "").strip()
    return ProcessFailedError(f"{role}-{rank}", failure.pid, failure.exitcode, traceback)
