# SPDX-License-Identifier: Apache-2.0
"""Serve a model over HTTP, by default the network that train.par trains.

--model and --checkpoint may be any paths that torch_google.gfile supports. After SIGTERM, the
server answers all pending requests and exits.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from absl import app, flags

from torch_google import serving

_MODEL = flags.DEFINE_string(
    "model",
    "examples.serve_models:digits",
    "A program of torch.export (*.pt2), StableHLO (*.mlir), or package.module:function, which "
    "returns a module and its inputs.",
)
_CHECKPOINT = flags.DEFINE_string(
    "checkpoint", None, "The weights of --model, as torch.save wrote them."
)
_DEVICE = flags.DEFINE_string("device", "cpu", "Device to compute on: cpu or tpu.")
_HOST = flags.DEFINE_string("host", "127.0.0.1", "Address to listen on; 0.0.0.0 is every address.")
_PORT = flags.DEFINE_integer("port", 8000, "Port to listen on; 0 selects one.", lower_bound=0)
_WORKERS = flags.DEFINE_integer(
    "workers", 1, "Processes that have the model and compute.", lower_bound=1
)
_THREADS = flags.DEFINE_integer("threads", 1, "torch's CPU threads per worker.", lower_bound=1)
_BATCH = flags.DEFINE_integer("batch", 8, "Most requests in a batch.", lower_bound=1)
_BATCH_WAIT = flags.DEFINE_float(
    "batch_wait", 0.0, "Seconds that a request waits for others in its batch.", lower_bound=0
)
_QUEUE = flags.DEFINE_integer(
    "queue", 256, "Most requests that wait for a worker; others get status 503.", lower_bound=1
)
_BODY_MIB = flags.DEFINE_integer("body_mib", 16, "Largest body of a request.", lower_bound=1)
_TIMEOUT = flags.DEFINE_float("timeout", 30.0, "Seconds until status 504.", lower_bound=0.001)
_DRAIN_DELAY = flags.DEFINE_float(
    "drain_delay",
    0.0,
    "Seconds after SIGTERM in which the server accepts requests, while /health has status 503.",
    lower_bound=0,
)
_DRAIN_TIMEOUT = flags.DEFINE_float(
    "drain_timeout", 30.0, "Seconds until the last response after that.", lower_bound=0.001
)
_EXIT_TIMEOUT = flags.DEFINE_float(
    "exit_timeout",
    15.0,
    "Seconds until the end of the process after that. A worker has half of them.",
    lower_bound=0.001,
)


def main(argv: Sequence[str]) -> int:
    """Serve the model until a signal terminates the process."""
    if len(argv) > 1:
        return _fail(f"found the argument {argv[1]!r}, expected flags only. See --help.")
    if _MODEL.value == _MODEL.default and not _CHECKPOINT.value:
        return _fail(
            "found no --checkpoint. Run train.par first, then use "
            "--checkpoint=train_output/checkpoint.pt, or serve another --model."
        )
    try:
        _serve()
    except (serving.ServingError, ValueError) as error:
        return _fail(str(error))
    return 0


def _serve() -> None:
    limits = serving.Limits(
        batch=_BATCH.value,
        batch_wait=_BATCH_WAIT.value,
        queue=_QUEUE.value,
        body_bytes=_BODY_MIB.value << 20,
        timeout=_TIMEOUT.value,
        drain_delay=_DRAIN_DELAY.value,
        drain_timeout=_DRAIN_TIMEOUT.value,
        exit_timeout=_EXIT_TIMEOUT.value,
    )
    checkpoint = _from_here(_CHECKPOINT.value) if _CHECKPOINT.value else None
    source = serving.Source(_from_here(_MODEL.value), checkpoint)
    api = serving.TensorAPI(source, limits, threads=_THREADS.value)
    server = serving.Server(api, device=_DEVICE.value, workers=_WORKERS.value, limits=limits)
    server.run(_HOST.value, _PORT.value)


def _from_here(path: str) -> str:
    """Resolve `path` in the user's working directory, because `bazel run` uses a different one."""
    if ":" in path:  # a URL or a function
        return path
    return os.path.join(os.environ.get("BUILD_WORKING_DIRECTORY", ""), path)


def _fail(message: str) -> int:
    print(f"serve: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    app.run(main)
