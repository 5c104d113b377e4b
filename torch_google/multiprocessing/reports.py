# SPDX-License-Identifier: Apache-2.0
"""What a child says about its end: the traceback of an exception, or of a crash in native code.

The parent listens on a socket, and a child connects when it begins. faulthandler writes there, which
needs nothing of the interpreter, and so does what catches exceptions. When a child is gone, a thread of
the parent logs what it said, once, and keeps it for whoever waits for that child.
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

# Of one child, in bytes; the rest of a longer report is left out.
MOST_BYTES = 1 << 20
# Of how many children reports are kept for whoever waits for them.
MOST_KEPT = 256
# How long `settle` waits for the thread, in seconds.
SETTLE_SECONDS = 10.0

LOGGER = "torch_google.multiprocessing"

# multiprocessing joins what is left of its children at 0, in descending order.
_AFTER_CHILDREN = -100

_CHUNK = 1 << 16


@dataclass
class _Child:
    pid: int
    said: bytearray = field(default_factory=bytearray)


class Listener:
    """The parent's side. One for a process, with a thread that ends with it."""

    def __init__(self) -> None:
        """Begin to listen, for processes of the same user."""
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
        """Wait until all that ended children said is logged."""
        self._settled.clear()
        self._waker.send(b".")
        self._settled.wait(SETTLE_SECONDS)

    def take(self, pid: int) -> str:
        """Return what a child that has ended said, or an empty string; after that it is forgotten."""
        self.settle()
        return self._texts.pop(pid, "")

    def close(self) -> None:
        """In a forked process: let go of the parent's sockets."""
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
            while len(self._texts) > MOST_KEPT:  # nobody waits for them
                del self._texts[next(iter(self._texts))]
            logging.getLogger(LOGGER).error("%s (pid %d) failed:\n%s", name, child.pid, text)


_listener: Listener | None = None
_inherited: bytes | None = None
_connection: socket.socket | None = None


def listener() -> Listener:
    """Return the listener of this process, made when first asked for."""
    global _listener
    if _listener is None:
        _listener = Listener()
        _settle_at_exit()
    return _listener


def _settle_at_exit() -> None:
    """Have this process not end before its log has what its children said.

    The listener's thread does not keep it alive. A child of multiprocessing ends without atexit, but
    like every process by multiprocessing's own end, which first joins the children that are left. In
    the main process that is to come before the log's end, which was imported later.
    """
    util.Finalize(None, settle, exitpriority=_AFTER_CHILDREN)
    atexit.unregister(util._exit_function)  # type: ignore[attr-defined]
    atexit.register(util._exit_function)  # type: ignore[attr-defined]


def settle() -> None:
    """Wait until all that ended children said is logged, if there were any."""
    if _listener is not None:
        _listener.settle()


def inherited() -> bytes:
    """Return where the process that forked this one listens. Raises RuntimeError if it does not."""
    if _inherited is None:
        raise RuntimeError(f"process {os.getpid()} was not forked by one that listens")
    return _inherited


def connect(address: bytes, name: str) -> None:
    """In a child that begins: report to the parent's `address` from now on, as `name`."""
    global _connection
    _connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    _connection.connect(address)
    _connection.sendall(f"{name}\n".encode())
    watch_faults()


def watch_faults() -> None:
    """Have tracebacks of crashes go to the parent; to standard error where there is none."""
    if _connection is not None:
        faulthandler.enable(_connection.fileno())
    elif sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)


def report(text: str) -> None:
    """Tell the parent. Raises RuntimeError in a process that is no child."""
    if _connection is None:
        raise RuntimeError(f"process {os.getpid()} has no parent to report to")
    _connection.sendall(text.encode(errors="replace"))


def forget() -> None:
    """In a process that was forked: let go of what is the parent's."""
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
