# SPDX-License-Identifier: Apache-2.0
"""Failure reports from children to their parent: tracebacks of exceptions and of native crashes.

The parent listens on a socket, and each child connects to it when it starts. In the child, both
the exception handler and faulthandler write to the connection; faulthandler works even after a
crash in C code. When a child has exited, a thread in the parent logs the report once and stores it
for `take`.
"""

from __future__ import annotations

import atexit
import faulthandler
import logging
import os
import secrets
import selectors
import socket
import struct
import sys
import threading
from dataclasses import dataclass, field
from multiprocessing import util

# Maximum size of a child's report in bytes; longer reports are truncated.
MOST_BYTES = 1 << 20
# Maximum number of reports stored for `take`.
MOST_KEPT = 256
# Timeout of `settle` in seconds.
SETTLE_SECONDS = 10.0

LOGGER = "torch_google.multiprocessing"

# At exit, multiprocessing runs finalizers in descending order of priority. It joins the remaining
# children before it runs the finalizers with a negative priority.
_AFTER_CHILDREN = -100

_CHUNK = 1 << 16


@dataclass
class _Child:
    pid: int
    said: bytearray = field(default_factory=bytearray)


class Listener:
    """A socket on which a process receives its children's reports, and a thread that reads it."""

    def __init__(self) -> None:
        """Start listening. Connections from other users' processes are rejected."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(b"\0torch_google." + secrets.token_hex(16).encode())
        self._socket.listen(1024)
        self.address: bytes = self._socket.getsockname()
        self._woken, self._waker = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._texts: dict[int, str] = {}
        self._settled = threading.Event()
        threading.Thread(target=self._listen, name="children's reports", daemon=True).start()

    def settle(self) -> None:
        """Wait, with a timeout, until the reports of all children that have exited are logged."""
        self._settled.clear()
        self._waker.send(b".")
        self._settled.wait(SETTLE_SECONDS)

    def take(self, pid: int) -> str:
        """Remove and return the report of a child that has exited, or "" if it sent none."""
        self.settle()
        return self._texts.pop(pid, "")

    def close(self) -> None:
        """Close the sockets that a forked process has inherited from its parent."""
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._waker.close()
        self._selector.close()

    def _listen(self) -> None:
        asked = False
        while True:
            ready = self._selector.select(0 if asked else None)
            if not ready:
                asked = False
                self._settled.set()
            for key, _ in ready:
                if key.fileobj is self._socket:
                    self._accept()
                elif key.fileobj is self._woken:
                    self._woken.recv(_CHUNK)
                    asked = True
                else:
                    self._read(key.fileobj, key.data)  # type: ignore[arg-type]

    def _accept(self) -> None:
        connection, _ = self._socket.accept()
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid, user, _ = struct.unpack("3i", credentials)
        if user != os.getuid():
            connection.close()
            return
        self._selector.register(connection, selectors.EVENT_READ, _Child(pid))

    def _read(self, connection: socket.socket, child: _Child) -> None:
        try:
            chunk = connection.recv(_CHUNK)
        except ConnectionError:
            chunk = b""
        child.said += chunk[: MOST_BYTES - len(child.said)]
        if chunk:
            return
        self._selector.unregister(connection)
        connection.close()
        name, _, text = child.said.decode(errors="replace").partition("\n")
        text = text.strip()
        if text:
            self._texts[child.pid] = text
            while len(self._texts) > MOST_KEPT:  # drop the oldest, which may never be taken
                del self._texts[next(iter(self._texts))]
            logging.getLogger(LOGGER).error("%s (pid %d) failed:\n%s", name, child.pid, text)


_listener: Listener | None = None
_inherited: bytes | None = None
_connection: socket.socket | None = None


def listener() -> Listener:
    """Return this process's listener, which is created on first use."""
    global _listener
    if _listener is None:
        _listener = Listener()
        _settle_at_exit()
    return _listener


def _settle_at_exit() -> None:
    """Delay process exit until the children's reports are logged.

    The listener's daemon thread does not keep the process alive, so a finalizer waits for it. Every
    process runs multiprocessing's finalizers, even children, which skip atexit handlers. Before
    this finalizer, multiprocessing joins the remaining children. In the main process, atexit runs
    multiprocessing's exit function; register it again, so that it runs before the log is shut down.
    """
    util.Finalize(None, settle, exitpriority=_AFTER_CHILDREN)
    atexit.unregister(util._exit_function)  # type: ignore[attr-defined]
    atexit.register(util._exit_function)  # type: ignore[attr-defined]


def settle() -> None:
    """Wait for the reports of all children that have exited, if this process has a listener."""
    if _listener is not None:
        _listener.settle()


def inherited() -> bytes:
    """Return the address of the listener in the parent that forked this process.

    Raises RuntimeError if the parent has no listener.
    """
    if _inherited is None:
        raise RuntimeError(f"process {os.getpid()} was not forked by one that listens")
    return _inherited


def connect(address: bytes, name: str) -> None:
    """Connect this child to its parent's listener. `name` identifies the child in the log."""
    global _connection
    _connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    _connection.connect(address)
    _connection.sendall(f"{name}\n".encode())
    watch_faults()


def watch_faults() -> None:
    """Make faulthandler write to the parent or, without a connection, to standard error."""
    if _connection is not None:
        faulthandler.enable(_connection.fileno())
    elif sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)


def report(text: str) -> None:
    """Send a report to the parent. Raises RuntimeError if there is no connection to a parent."""
    if _connection is None:
        raise RuntimeError(f"process {os.getpid()} has no parent to report to")
    _connection.sendall(text.encode(errors="replace"))


def forget() -> None:
    """Close the listener and the connection that a forked process has inherited."""
    global _listener, _inherited, _connection
    _inherited = None
    if _listener is not None:
        _inherited = _listener.address
        _listener.close()
        _listener = None
    if _connection is not None:
        _connection.close()
        _connection = None
        watch_faults()
