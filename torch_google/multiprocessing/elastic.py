# SPDX-License-Identifier: Apache-2.0
"""torchrun without another program: a function in several processes, restarted together when one fails."""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
import uuid
from collections.abc import Callable
from typing import Any

from torch_google.multiprocessing import origin, reports
from torch_google.multiprocessing.process import ProcessFailedError

# torchrun's own default: a name drawn here would be another one on each machine.
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
    """Run `main(*args)` in `nproc_per_node` processes here, as torchrun would; return results by rank.

    Each has RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and so on in its environment, so that
    `init_process_group` needs nothing. `nnodes` is N or MIN:MAX machines, which meet at `rdzv_endpoint`,
    HOST:PORT; empty means this one alone. `run_id` tells jobs apart that meet at the same place, and is
    the same on all machines of one. A failure starts all of them anew, `max_restarts` times; after that it is
    raised as ProcessFailedError of the process that failed first. Each failure's traceback is logged.
    `start_method` is the program's default when None.
    """
    # Not at the top: it needs most of torch.distributed, and programs without it should not pay.
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    fewest, most = _machines(nnodes)
    if most > 1 and not rdzv_endpoint:
        raise ValueError(
            f"launch: nnodes is {nnodes!r}, and nothing says where these machines meet; give "
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
        try:
            results: dict[int, Any] = elastic_launch(config, _Entry(main))(*args)
        except ChildFailedError as error:
            raise _failed(role, error) from None
    return dict(sorted(results.items()))


class _Entry:
    """What elastic runs. It has set faulthandler to standard error, which no log would have."""

    def __init__(self, main: Callable[..., Any]) -> None:
        self._main = main
        self.__name__ = getattr(main, "__name__", type(main).__name__)
        self.__qualname__ = getattr(main, "__qualname__", self.__name__)

    def __call__(self, *args: Any) -> Any:
        reports.watch_faults()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            # A fork has the agent's handlers, which wait for C code to return: elastic would wait too.
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
    """Return our exception for elastic's. It has logged exceptions by itself, and we have crashes."""
    rank, failure = error.get_first_failure()
    said = reports.listener().take(failure.pid)
    if not said and isinstance(failure.message, dict):
        said = failure.message.get("extraInfo", {}).get("py_callstack", "").strip()
    return ProcessFailedError(f"{role}-{rank}", failure.pid, failure.exitcode, said)
