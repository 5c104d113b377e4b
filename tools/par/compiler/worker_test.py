# SPDX-License-Identifier: Apache-2.0
"""Test that a persistent worker writes the same bytes as one-shot runs, but recompiles less."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.par.compiler.kept import Kept
from tools.par.compiler.sources import Source
from tools.par.compiler.worker import FLAG

_MAIN = "import sys; from tools.par.compiler.main import main; sys.exit(main(sys.argv[1:]))"
_COMMAND = [sys.executable, "-c", _MAIN, "bundle"]
_ENVIRONMENT = {**os.environ, "PYTHONHASHSEED": "0"}


class Worker:
    """A persistent worker process to which tests send requests."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [*_COMMAND, FLAG],
            env=_ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, arguments: list[str], number: int = 0) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"arguments": arguments, "inputs": [], "requestId": number}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker()
    yield worker
    assert worker.process.stdin is not None
    worker.process.stdin.close()
    assert worker.process.wait(timeout=300) == 0


@pytest.fixture
def package(tmp_path: Path) -> Path:
    directory = tmp_path / "site" / "package"
    directory.mkdir(parents=True)
    (directory / "__init__.py").write_text("")
    (directory / "data.txt").write_text("data\n" * 100)
    for number in range(200):
        (directory / f"m{number}.py").write_text(_module(number))
    return directory


def _module(number: int, word: str = "shared") -> str:
    return (
        f"import os\nNAMES = {{'{word}', 'of', 'all', 'n{number}'}}\n\n"
        f"class Thing{number}:\n    def act(self, value={number}, *, word='{word}'):\n"
        f"        return [os.path.join(word, name) for name in NAMES if value > {number}]\n"
    )


def _arguments(package: Path, output: Path) -> list[str]:
    return [f"--output={output}", "--name=test", "--cold=package/cold", str(package.parent)]


def _alone(package: Path, output: Path) -> bytes:
    """Return the output of a one-shot process that reads its arguments from a file."""
    parameters = output.with_suffix(".params")
    parameters.write_text("".join(f"{line}\n" for line in _arguments(package, output)))
    subprocess.run([*_COMMAND, f"@{parameters}"], env=_ENVIRONMENT, check=True)
    return output.read_bytes()


def test_makes_the_same_bytes_after_any_requests(
    worker: Worker, package: Path, tmp_path: Path
) -> None:
    output = tmp_path / "kept.parlib"
    for number, word in enumerate(("shared", "other", "other", "shared")):
        (package / "m70.py").write_text(_module(70, word))
        answer = worker.ask(_arguments(package, output), number)
        assert answer == {"exitCode": 0, "output": "", "requestId": number}
        assert output.read_bytes() == _alone(package, tmp_path / "alone.parlib")
    (package / "m70.py").unlink()
    assert worker.ask(_arguments(package, output))["exitCode"] == 0
    assert output.read_bytes() == _alone(package, tmp_path / "alone.parlib")


def test_a_request_that_fails_says_why_and_the_next_one_works(
    worker: Worker, package: Path, tmp_path: Path
) -> None:
    output = tmp_path / "made.parlib"
    arguments = [*_arguments(package, output), "--strict"]
    (package / "m3.py").write_text("def f(:\n")
    answer = worker.ask(arguments, 7)
    assert (answer["exitCode"], answer["requestId"]) == (1, 7)
    assert "m3.py" in answer["output"]
    assert not output.exists()
    assert worker.ask(["--no-such-option"])["exitCode"] == 2
    assert "No such file" in worker.ask(_arguments(package, tmp_path / "no" / "made"))["output"]
    (package / "m3.py").write_text(_module(3))
    assert worker.ask(arguments)["exitCode"] == 0
    assert output.exists()


@pytest.fixture
def keep() -> Iterator[Callable[[int], Kept]]:
    with contextlib.ExitStack() as stack:

        def make(most: int) -> Kept:
            return stack.enter_context(contextlib.closing(Kept(most)))

        yield make


def _sources(package: Path) -> list[Source]:
    return [(f"package/m{n}.py", str(package / f"m{n}.py"), n > 150) for n in range(200)]


def test_what_did_not_change_is_not_compiled_again(
    package: Path, keep: Callable[[int], Kept]
) -> None:
    cache = keep(1 << 20)
    first = list(cache.compile_all(_sources(package)))
    (package / "m70.py").write_text(_module(70, "other"))
    second = list(cache.compile_all(_sources(package)))
    again = [one is other for one, other in zip(first, second, strict=True)]
    # Files are compiled in batches of 64, so a change to a file recompiles its whole batch.
    assert again == [True] * 64 + [False] * 64 + [True] * 72
    assert [c.path for c in second] == [path for path, _, _ in _sources(package)]


def test_what_is_kept_has_a_limit(package: Path, keep: Callable[[int], Kept]) -> None:
    cache = keep(20_000)
    assert len(list(cache.compile_all(_sources(package)))) == 200
    assert 0 < cache.size <= 20_000
    assert 0 < len(cache) < 4


def test_a_file_that_goes_away_is_an_error_and_the_next_request_works(
    package: Path, keep: Callable[[int], Kept]
) -> None:
    cache = keep(1 << 20)
    with pytest.raises(OSError, match="no_such"):
        list(cache.compile_all([("no_such.py", "no_such.py", False)]))
    assert len(list(cache.compile_all(_sources(package)))) == 200
