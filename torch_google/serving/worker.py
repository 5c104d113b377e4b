# SPDX-License-Identifier: Apache-2.0
"""Run a worker process, which loads the model and runs batches until the server disconnects.

The worker and the server exchange pickled objects over a private socket pair. The worker first
sends a `Ready` or a `Failed`, then a `Done` for each list of payloads that it receives.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from fastapi import HTTPException
from litserve import LitAPI

from torch_google.multiprocessing import lifeline
from torch_google.serving.signature import Signature

_LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Ready:
    """The message sent once the model is loaded. `signature` is None if the API declares none."""

    pid: int
    signature: Signature | None


@dataclasses.dataclass(frozen=True)
class Failed:
    """The message sent if setup failed."""

    message: str


@dataclasses.dataclass(frozen=True)
class Reply:
    """The response to one request. The server encodes `content` as JSON unless it is bytes."""

    status: int
    content: Any


@dataclasses.dataclass(frozen=True)
class Done:
    """The replies to a batch, in the order of its requests, and the time it took in seconds."""

    replies: list[Reply]
    seconds: float


def main(connection: Connection, server: lifeline.Line, api: LitAPI, device: str) -> None:
    """Run a worker until the server closes the connection, then exit.

    If the server process exits first, the kernel kills this process.
    """
    lifeline.hang_on(server)
    try:
        _serve(connection, api, device)
    finally:
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    # Skip the interpreter's shutdown: with torch loaded, it takes seconds on a busy machine.
    os._exit(0)


def _serve(connection: Connection, api: LitAPI, device: str) -> None:
    # Ignore signals, because the server decides when a worker exits: it closes the connection after
    # the last response. The terminal sends SIGINT, and some schedulers send SIGTERM, to all
    # processes of a job.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        api.setup(device)
        api.device = device
    except Exception as error:  # noqa: BLE001 - setup is the user's code, and the server reports it
        _LOG.debug("setup failed", exc_info=True)
        _send(connection, Failed(f"{type(error).__name__}: {error}"))
        return
    is_open = _send(connection, Ready(os.getpid(), getattr(api, "signature", None)))
    while is_open:
        try:
            payloads = connection.recv()
        except (EOFError, ConnectionError):
            return
        start = time.perf_counter()
        replies = run(api, payloads)
        is_open = _send(connection, Done(replies, time.perf_counter() - start))


def _send(connection: Connection, message: Ready | Failed | Done) -> bool:
    """Send a message. Return whether the connection to the server is still open."""
    try:
        connection.send(message)
    except ConnectionError:
        return False
    return True


def run(api: LitAPI, payloads: Sequence[Any]) -> list[Reply]:
    """Return the replies to a batch. If the batch fails, retry its requests one by one."""
    replies: dict[int, Reply] = {}
    inputs: dict[int, Any] = {}
    for index, payload in enumerate(payloads):
        try:
            inputs[index] = api.decode_request(payload)
        except Exception as error:  # noqa: BLE001 - it is the user's code
            replies[index] = _failure(error)
    if inputs:
        replies |= zip(inputs, _predict(api, list(inputs.values())), strict=True)
    return [replies[index] for index in range(len(payloads))]


def _predict(api: LitAPI, inputs: list[Any]) -> list[Reply]:
    try:
        return [Reply(200, api.encode_response(output)) for output in _outputs(api, inputs)]
    except Exception as error:  # noqa: BLE001 - it is the user's code
        if len(inputs) == 1:
            return [_failure(error)]
    return [reply for each in inputs for reply in _predict(api, [each])]


def _outputs(api: LitAPI, inputs: list[Any]) -> Sequence[Any]:
    if api.max_batch_size == 1:
        return [api.predict(each) for each in inputs]
    outputs = list(api.unbatch(api.predict(api.batch(inputs))))
    if len(outputs) != len(inputs):
        raise ValueError(f"predict returned {len(outputs)} outputs for {len(inputs)} inputs")
    return outputs


def _failure(error: Exception) -> Reply:
    if isinstance(error, HTTPException):
        return Reply(error.status_code, {"detail": error.detail})
    _LOG.error("the model failed", exc_info=error)
    document = {
        "what": "the model failed",
        "where": "the worker",
        "found": f"{type(error).__name__}: {str(error)[:500]}",
        "next": "see the server's log for the traceback",
    }
    return Reply(500, {"error": document})
