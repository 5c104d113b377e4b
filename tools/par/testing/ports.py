# SPDX-License-Identifier: Apache-2.0
"""Reserve a TCP port for a server that a test starts."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """Reserve a port on 127.0.0.1 until the block exits, so that no other process gets it.

    This process binds the port but does not listen on it. A server that sets SO_REUSEADDR, as most
    do, can bind the port while it is reserved.
    """
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]
