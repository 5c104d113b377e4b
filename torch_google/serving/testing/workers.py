# SPDX-License-Identifier: Apache-2.0
"""Main functions for worker processes that violate the protocol in different ways."""

from __future__ import annotations

import os
import signal
import struct
from multiprocessing.connection import Connection
from typing import Any

from torch_google.serving.worker import Ready


class Broken:
    """An object that cannot be unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("not a number",)


def stops(connection: Connection, *arguments: Any) -> None:
    """Send `Ready`, then stop with SIGSTOP, so that the process reads no batch and ignores EOF."""
    connection.send(Ready(os.getpid(), None))
    os.kill(os.getpid(), signal.SIGSTOP)


def stops_within_a_message(connection: Connection, *arguments: Any) -> None:
    """Send `Ready`, receive a batch, send part of a message, and stop with SIGSTOP."""
    connection.send(Ready(os.getpid(), None))
    connection.recv()
    os.write(connection.fileno(), struct.pack("!i", 1000) + b"part")
    os.kill(os.getpid(), signal.SIGSTOP)


def ends_within_a_message(connection: Connection, *arguments: Any) -> None:
    """Send `Ready`, receive a batch, send part of a message, and exit."""
    connection.send(Ready(os.getpid(), None))
    connection.recv()
    os.write(connection.fileno(), struct.pack("!i", 1000) + b"part")
    os._exit(5)


def sends_nonsense(connection: Connection, *arguments: Any) -> None:
    """Send `Ready`, receive a batch, and reply with a message that the server cannot unpickle."""
    connection.send(Ready(os.getpid(), None))
    connection.recv()
    connection.send(Broken())
    connection.recv()
