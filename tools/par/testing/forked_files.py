# SPDX-License-Identifier: Apache-2.0
"""Run each test file in its own process, forked from a parent that has done the slow imports.

Importing torch and JAX takes seconds, but a fork takes milliseconds. Files are as isolated as in
separate targets: they share no memory, and a crash aborts the tests in only one file.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import xml.etree.ElementTree
from collections.abc import Callable, Sequence
from pathlib import Path

_OK = 0
_TESTS_FAILED = 1
_NO_TESTS = 5  # pytest's exit status if it collected no tests, for example because of a filter


def run(
    files: Sequence[str],
    session: Callable[[str, Path], int],
    *,
    scratch: Path,
    results: Path | None,
    warm_imports: Sequence[str] = (),
) -> int:
    """Run `session(file, folder)` in a forked child for each file of this shard.

    In a child, this function returns `session`'s status immediately, and the caller must exit with
    it. Only the parent goes on to the next files. Each child gets its own folder under `scratch`.
    The parent merges the `results.xml` files from these folders into `results`.

    Returns:
        pytest's exit status: 1 if any file failed, 5 if no file had tests to run, else 0.
    """
    for name in warm_imports:
        importlib.import_module(name)
    # Freeze the objects that the imports created. Otherwise, when pytest collects garbage at the
    # end of a session, each child would scan them (half a second with torch) and copy their pages.
    gc.collect()
    gc.freeze()
    shard = _shard(files)
    statuses = []
    suites = xml.etree.ElementTree.Element("testsuites")
    for number, file in enumerate(shard):
        folder = scratch / f"file_{number}"
        folder.mkdir(parents=True, exist_ok=True)
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            return session(file, folder)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        reported = _suites(file, folder / "results.xml", status)
        suites.extend(reported)
        statuses.append(_TESTS_FAILED if any(map(_failed, reported)) else status)
    if results is not None:
        xml.etree.ElementTree.ElementTree(suites).write(
            results, encoding="utf-8", xml_declaration=True
        )
    if any(status not in (_OK, _NO_TESTS) for status in statuses):
        return _TESTS_FAILED
    return _OK if _OK in statuses else _NO_TESTS


def _shard(files: Sequence[str]) -> Sequence[str]:
    """Return the files that Bazel's sharding variables assign to this shard."""
    status_file = os.environ.get("TEST_SHARD_STATUS_FILE")
    if status_file:
        Path(status_file).touch()
    total = int(os.environ.get("TEST_TOTAL_SHARDS") or 1)
    return files[int(os.environ.get("TEST_SHARD_INDEX") or 0) :: total]


def _suites(file: str, results: Path, status: int) -> list[xml.etree.ElementTree.Element]:
    """Return the test suites in a file's results, plus a failed one if the process failed."""
    try:
        suites = list(xml.etree.ElementTree.parse(results).getroot().iter("testsuite"))
    except FileNotFoundError:
        return [_failure(file, f"{_ending(status)} before pytest wrote its results")]
    except xml.etree.ElementTree.ParseError as error:
        return [_failure(file, f"{_ending(status)}; its results are not XML: {error}")]
    if status not in (_OK, _NO_TESTS) and not any(map(_failed, suites)):
        suites.append(_failure(file, f"{_ending(status)} and reported no failing test"))
    return suites


def _failed(suite: xml.etree.ElementTree.Element) -> bool:
    return any(suite.find(f"testcase/{kind}") is not None for kind in ("failure", "error"))


def _failure(file: str, reason: str) -> xml.etree.ElementTree.Element:
    suite = xml.etree.ElementTree.Element(
        "testsuite", name=file, tests="1", failures="0", errors="1", skipped="0"
    )
    case = xml.etree.ElementTree.SubElement(suite, "testcase", classname=file, name="process")
    xml.etree.ElementTree.SubElement(case, "error", message=reason).text = reason
    print(f"{file}: {reason}", file=sys.stderr)
    return suite


def _ending(status: int) -> str:
    """Describe how a process exited. If `status` is negative, signal -status killed it."""
    if status >= 0:
        return f"the process ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"the process was ended by {name}"
