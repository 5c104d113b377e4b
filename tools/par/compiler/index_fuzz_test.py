# SPDX-License-Identifier: Apache-2.0
"""Fuzz indexes and footers that have valid hashes.

A program must run or exit with a one-line error. If its index lacks a module, it may exit with a
Python traceback, but must not hang or be killed by a signal.
"""

from __future__ import annotations

import collections
import contextlib
import marshal
import os
import random
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _par
import pytest

from tools.par.compiler.container import FOOTER, FOOTER_SIZE, read_index
from tools.par.compiler.link import link

_WORKSPACE = Path(__file__).parents[3]
_BASE = [_WORKSPACE / f"tools/par/runtime/{name}.parlib" for name in ("stdlib", "runtime")]
_READS = 1800  # number of damaged files that `_par` reads, each in a forked child
_STARTS = 200  # number of damaged files that are started as programs
_MEMORY = 1 << 30
_SECONDS = 20
_NUMBERS = (-1, 0, 1, 255, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64)
_TEXTS = ("", ".", "..", "../x", "/etc/passwd", "a//b", "x\0y", "\udc80", "sys")


@pytest.fixture(scope="module")
def par(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "app.py").write_text("print(1)\n")
    link(
        folder / "program.par",
        launcher=_WORKSPACE / "tools/par/launcher/launcher",
        bundles=_BASE,
        files=[("app.py", str(folder / "app.py"))],
        settings={"main": "app", "fast_exit": True, "startup_gc": False},
        info={},
    )
    return folder / "program.par"


def _change_value(value: Any, chance: random.Random) -> Any:
    """Return a copy of a table in which one item is replaced, swapped, deleted or duplicated."""
    if isinstance(value, dict) and value and chance.random() < 0.95:
        key = chance.choice(list(value))
        copy = dict(value)
        if chance.random() < 0.1:
            del copy[key]
        else:
            copy[key] = _change_value(value[key], chance)
        return copy
    if isinstance(value, (tuple, list)) and value and chance.random() < 0.95:
        items = list(value)
        one, two = (chance.randrange(len(items)) for _ in range(2))
        step = chance.random()
        if step < 0.15:
            items[one], items[two] = items[two], items[one]
        elif step < 0.2:
            del items[one]
        elif step < 0.25:
            items.append(items[one])
        else:
            items[one] = _change_value(items[one], chance)
        return type(value)(items)
    return chance.choice((*_NUMBERS, *_TEXTS, None, True, 1.5, b"x", (), [], {}, (1,), {"a": 1}))


def _change_bytes(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    step = chance.random()
    if step < 0.2:
        return bytes(changed[: chance.randrange(len(changed))])
    for _ in range(chance.choice((1, 1, 2, 8))):
        offset = chance.randrange(len(changed))
        if step < 0.6:
            changed[offset] ^= 1 << chance.randrange(8)
        else:
            number = chance.choice((0, 0x7FFFFFFF, 0xFFFFFFFF))
            changed[offset : offset + 4] = number.to_bytes(4, "little")
    return bytes(changed)


def _forge(content: bytes, chance: random.Random) -> bytes:
    """Return a damaged footer, or a damaged index with a footer that matches it."""
    match = FOOTER.fullmatch(content[-FOOTER_SIZE:])
    assert match is not None
    numbers = [int(n, 16) for n in match.groups()]
    step = chance.random()
    blob = content[numbers[0] : numbers[0] + numbers[1]]
    if step < 0.2:
        footer = content[-FOOTER_SIZE:]
        if chance.random() < 0.5:
            return _change_bytes(footer, chance)
        numbers[chance.randrange(7)] = chance.choice(_NUMBERS) % (1 << 64)
        return b"PAR index" + b" %016x" * 7 % tuple(numbers) + b"\n"
    if step < 0.5:
        blob = _change_bytes(blob, chance)
    else:
        blob = marshal.dumps(_change_value(marshal.loads(blob), chance))
    offset = len(content) - FOOTER_SIZE
    total = offset + len(blob) + FOOTER_SIZE
    row = (offset, len(blob), _par.hash(blob), total, *numbers[4:])
    return blob + b"PAR index" + b" %016x" * 7 % row + b"\n"


def _put(path: Path, content: bytes, tail: bytes) -> int:
    """Write `content` to `path`, but with `tail` instead of its footer. Return the file's size.

    The first call creates the file. Later calls write only the tail.
    """
    if not path.exists():
        path.write_bytes(content)
        path.chmod(0o755)
    with path.open("r+b") as file:
        file.truncate(len(content) - FOOTER_SIZE)
        file.seek(0, os.SEEK_END)
        file.write(tail)
        return file.tell()


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read(path: Path) -> None:
    """Read the index, as a starting program does, and then all sections, as PAR_LIST does."""
    archive = _par.Archive(str(path))
    index = archive.index()
    for kind, locations in index["sections"].items():
        for location in locations:
            archive.section(kind, *location)


def _outcome_in_child(work: Callable[[], None]) -> str:
    child = os.fork()
    if child == 0:
        status = 2
        try:
            _limit()
            work()
            status = 0
        except _par.ArchiveError as error:
            status = 1 if "\n" not in str(error) else 3
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return {0: "read", 1: "refused"}.get(code, f"status {code}")


@pytest.mark.full
def test_every_forged_index_is_read_or_refused(par: Path, tmp_path: Path) -> None:
    content, chance = par.read_bytes(), random.Random(1)
    outcomes: collections.Counter[str] = collections.Counter()
    path = tmp_path / "forged"
    for number in range(_READS):
        _put(path, content, _forge(content, chance))
        outcome = _outcome_in_child(lambda: _read(path))
        assert outcome in ("read", "refused"), f"forgery {number}: {outcome}"
        outcomes[outcome] += 1
    assert min(outcomes["read"], outcomes["refused"]) > 50, outcomes


def test_every_forged_program_runs_or_ends_in_one_line(par: Path, tmp_path: Path) -> None:
    content, chance = par.read_bytes(), random.Random(2)
    seal = content.index(b"PAR launcher v1\0") + 16
    path = tmp_path / "forged.par"
    environment = {"PAR_CACHE_DIR": str(tmp_path / "cache")}
    for number in range(_STARTS):
        size = _put(path, content, _forge(content, chance))
        with path.open("r+b") as file:
            file.seek(seal)
            file.write(size.to_bytes(8, "little"))
        done = subprocess.run(
            [path],
            env=environment,
            capture_output=True,
            preexec_fn=_limit,
            check=False,
            timeout=300,
        )
        end = (done.returncode, done.stdout, done.stderr.count(b"\n"))
        fine = end == (0, b"1\n", 0) or (end[0] in (1, 3) and end[1:] == (b"", 1))
        if not fine and end[0] == 1:
            fine = _outcome_in_child(lambda: _read(path)) == "read"
        assert fine, f"forgery {number}: {end}: {done.stderr!r}"


@pytest.mark.full
def test_the_compilers_reader_raises_one_error(par: Path) -> None:
    content, chance = par.read_bytes(), random.Random(3)
    for _ in range(300):
        data = memoryview(content[:-FOOTER_SIZE] + _forge(content, chance))
        with contextlib.suppress(ValueError):
            read_index(data, par)
