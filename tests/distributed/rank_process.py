# SPDX-License-Identifier: Apache-2.0
"""The main script of a rank process, which runs the test cases that the launcher requests."""

from __future__ import annotations

import datetime
import faulthandler
import gc
import json
import os
import pathlib
import signal
import sys
import time
import traceback
import warnings
from typing import Any

# The timeout for collectives, in seconds. If another rank fails, the launcher kills this rank
# earlier.
_PATIENCE = 60


def main(index: int, size: int) -> None:
    # Reserve standard output for replies to the launcher. The output of cases goes to the log.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    faulthandler.register(signal.SIGUSR1)
    from torch_google.tpu.registration import register
    from torch_google.tpu.testing import quick_compiler

    quick_compiler.use()
    register()
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    store = None
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        if store is None:
            store = dist.TCPStore(
                "127.0.0.1",
                request["port"],
                is_master=False,
                timeout=datetime.timedelta(seconds=_PATIENCE),
            )
        start = time.monotonic()
        error, difference = "", 0.0
        try:
            difference = _run(request, dist.PrefixStore(request["id"], store), index, size)
        except BaseException:  # noqa: BLE001 - the launcher reports it
            error = traceback.format_exc()
        seconds = time.monotonic() - start
        reply = {
            "error": error,
            "difference": difference,
            "seconds": seconds,
            "compiles": torch.tpu.metrics().compiles,
        }
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


def _run(request: dict[str, Any], store: Any, index: int, size: int) -> float:
    import torch
    import torch.distributed as dist

    from tests.distributed import registry
    from tests.distributed.rank import Rank

    mode = request["mode"]
    torch.tpu.reset_metrics()
    torch.tpu.set_eager_mode("strict" if mode == "cpu" else mode)
    dist.init_process_group(
        store=store, rank=index, world_size=size, timeout=datetime.timedelta(seconds=_PATIENCE)
    )
    device = "cpu" if mode == "cpu" else "tpu"
    rank = Rank(index, size, device, pathlib.Path(request["directory"]))
    difference = registry.find(request["case"]).run(rank)
    dist.barrier()
    dist.destroy_process_group()
    torch.tpu.wait_for_compiles()
    gc.collect()
    return difference


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
