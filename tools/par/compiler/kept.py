# SPDX-License-Identifier: Apache-2.0
"""A cache of compiled sources, used when the compiler runs as a persistent worker."""

from __future__ import annotations

import hashlib
import multiprocessing
from collections import OrderedDict
from collections.abc import Iterator
from multiprocessing.connection import Connection

from tools.par.compiler.sources import Compiled, Source, compile_runs, runs_of


class Kept:
    """An LRU cache from sources to compiled code, limited to `most` bytes.

    The bytes that compilation produces depend on what the process did before (see sources.py).
    Each compilation therefore runs in a fork of a child process that does nothing else. The
    constructor forks this child, so create the cache before the process does other work.
    """

    def __init__(self, most: int) -> None:
        self.size = 0
        self._most = most
        self._runs: OrderedDict[bytes, list[Compiled]] = OrderedDict()
        context = multiprocessing.get_context("fork")
        self._compiler, child_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(child_end, self._compiler))
        self._process.start()
        child_end.close()

    def __len__(self) -> int:
        return len(self._runs)

    def close(self) -> None:
        """Terminate the child process, after which the cache cannot be used."""
        self._compiler.close()
        self._process.join()

    def compile_all(self, files: list[Source]) -> Iterator[Compiled]:
        """Like `sources.compile_all`, but compile only sources that are not cached."""
        keys = {_key(run): run for run in runs_of(files)}
        self._compile([(key, run) for key, run in keys.items() if key not in self._runs])
        results = []
        for key in keys:
            self._runs.move_to_end(key)
            results.append(self._runs[key])
        while self.size > self._most:
            _, oldest = self._runs.popitem(last=False)
            self.size -= _bytes_of(oldest)
        for run in results:
            yield from run

    def _compile(self, runs: list[tuple[bytes, list[Source]]]) -> None:
        if not runs:
            return
        self._compiler.send([run for _, run in runs])
        result = self._compiler.recv()
        if isinstance(result, Exception):
            raise result
        for (key, _), run in zip(runs, result, strict=True):
            self._runs[key] = run
            self.size += _bytes_of(run)


def _serve(connection: Connection, parent_end: Connection) -> None:
    """Compile the files of each request from `connection` until the parent closes its end."""
    parent_end.close()
    while True:
        try:
            runs = connection.recv()
        except EOFError:
            return
        try:
            result: list[list[Compiled]] | OSError = list(compile_runs(runs))
        except OSError as error:
            result = error
        connection.send(result)


def _key(run: list[Source]) -> bytes:
    """Return a hash of everything that determines a batch's compiled code."""
    digest = hashlib.sha256()
    for path, disk, pack in run:
        with open(disk, "rb") as stream:
            data = stream.read()
        digest.update(f"{path}\0{pack}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.digest()


def _bytes_of(run: list[Compiled]) -> int:
    return sum(len(c.pyc or b"") + len(c.packed or b"") + len(c.deflated) for c in run)
