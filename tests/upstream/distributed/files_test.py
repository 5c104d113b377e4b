# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.fbcode import outcomes, recording
from tests.upstream.distributed import comparison, files
from tools.presubmit.results import Outcome

_FILE = "test_device_mesh"
_TESTS: dict[str, Callable[[], object]] = {
    "ends": functools.partial(os._exit, 3),
    "blocks": functools.partial(time.sleep, 1000),
    "passes": int,
}


def _session(file: str, options: Sequence[str]) -> int:
    """Run the tests that have no outcome yet, recording outcomes like the `recording` plugin."""
    target = Path(os.environ[recording.FILE])
    ran = outcomes.read(target)
    for name, test in _TESTS.items():
        if ("suite", name) not in ran:
            begun = outcomes.Ran("suite", name, "", Outcome.FAILED, outcomes.BEGUN)
            outcomes.append(target, [begun])
            test()
            outcomes.append(target, [outcomes.Ran("suite", name, "", Outcome.PASSED)])
    return 0


def test_a_test_that_ends_or_blocks_its_process_fails_and_the_next_ones_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_run", _session)
    monkeypatch.setattr(files, "_TIMEOUT", 5.0)  # far more than the other tests need
    files.run_file(_FILE, "tpu", tmp_path)
    ran = outcomes.read(comparison.results_file(tmp_path, _FILE, "tpu"))
    assert {name: row.reason for (_, name), row in ran.items()} == {
        "ends": "ended its process with status 3",
        "blocks": f"ended its process with status {-signal.SIGKILL}",
        "passes": "",
    }
    assert comparison.complete(tmp_path) == [_FILE]


def test_ranks_that_outlive_their_test_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()

    def session(file: str, options: Sequence[str]) -> int:
        if not os.fork():
            time.sleep(60)
            os._exit(0)
        return 0

    monkeypatch.setattr(files, "_run", session)
    files.run_file(_FILE, "tpu", tmp_path)
    os.close(writer)
    assert os.read(reader, 1) == b""  # no process has the other end
    os.close(reader)
