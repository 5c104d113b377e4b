# SPDX-License-Identifier: Apache-2.0
"""Compiles what it has not compiled before: for a process that stays."""

from __future__ import annotations

import hashlib
import multiprocessing
from collections import OrderedDict
from collections.abc import Iterator
from multiprocessing.connection import Connection

from tools.par.compiler.sources import Compiled, Source, compile_runs, runs_of


class Kept:
    """What was compiled, by what it was compiled from: at most `most` bytes, the last ones used.

    What a process did before shows in what it compiles. So a process that is forked here, and does
    nothing else, has those that compile as its children: make this before there is other work.
    """

    def __init__(self, most: int) -> None:
        self.size = 0
        self._most = most
        self._runs: OrderedDict[bytes, list[Compiled]] = OrderedDict()
        context = multiprocessing.get_context("fork")
        self._compiler, theirs = context.Pipe()
        self._process = context.Process(target=_compile_for, args=(theirs, self._compiler))
        self._process.start()
        theirs.close()

    def __len__(self) -> int:
        return len(self._runs)

    def close(self) -> None:
        """End the process. Nothing can be compiled any longer."""
        self._compiler.close()
        self._process.join()

    def compile_all(self, files: list[Source]) -> Iterator[Compiled]:
        """Does what that of `sources` does, with the same bytes."""
        keys = {_key(run): run for run in runs_of(files)}
        self._compile([(key, run) for key, run in keys.items() if key not in self._runs])
        found = []
        for key in keys:
            self._runs.move_to_end(key)
            found.append(self._runs[key])
        while self.size > self._most:
            _, oldest = self._runs.popitem(last=False)
            self.size -= _bytes_of(oldest)
        for run in found:
            yield from run

    def _compile(self, runs: list[tuple[bytes, list[Source]]]) -> None:
        if not runs:
            return
        self._compiler.send([run for _, run in runs])
        made = self._compiler.recv()
        if isinstance(made, Exception):
            raise made
        for (key, _), run in zip(runs, made, strict=True):
            self._runs[key] = run
            self.size += _bytes_of(run)


def _compile_for(asking: Connection, not_ours: Connection) -> None:
    not_ours.close()
    while True:
        try:
            runs = asking.recv()
        except EOFError:
            return
        try:
            made: list[list[Compiled]] | OSError = list(compile_runs(runs))
        except OSError as error:
            made = error
        asking.send(made)


def _key(run: list[Source]) -> bytes:
    """What the result of a run depends on: names, contents, and how the code is to be stored."""
    digest = hashlib.sha256()
    for path, disk, pack in run:
        with open(disk, "rb") as stream:
            data = stream.read()
        digest.update(f"{path}\0{pack}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.digest()


def _bytes_of(run: list[Compiled]) -> int:
    return sum(len(c.pyc or b"") + len(c.packed or b"") + len(c.deflated) for c in run)
