# SPDX-License-Identifier: Apache-2.0
"""Test that the supervisor reads a child's outcomes, and survives a child that crashes or hangs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from tests.ecosystem import supervisor
from tests.ecosystem.results import Verdict
from tests.ecosystem.supervisor import Outcome

_KEYS = ["timm/resnet:strict", "timm/resnet:fused", "timm/swin:strict"]


def _outcomes(
    tmp_path: Path, entries: list[dict[str, str]], end: str, *, seconds: float = 300.0
) -> tuple[list[Outcome], list[str]]:
    """Run a child that writes `entries` to its journal and then executes the code `end`.

    `seconds` limits how long `end` may run. The limit starts after the child has written `entries`.
    """
    journal = tmp_path / "journal"
    journal.write_text("")
    text = "".join(json.dumps(entry) + "\n" for entry in entries)
    program = f"open({str(journal)!r}, 'a').write({text!r}); {end}"
    todo = list(_KEYS)
    with subprocess.Popen([sys.executable, "-c", f"import os, time; {program}"]) as child:
        while journal.read_text() != text and child.poll() is None:
            time.sleep(0.01)
        outcomes = list(supervisor._outcomes(child, journal, todo, seconds=seconds))
    return outcomes, todo


def _ends(key: str, verdict: str, cause: str = "") -> dict[str, str]:
    return {"ends": key, "verdict": verdict, "cause": cause}


def test_outcomes_of_a_child_that_ends_well(tmp_path: Path) -> None:
    entries = [_ends(key, "passed") for key in _KEYS[:2]]
    entries.append(_ends(_KEYS[2], "differs", "losses.0: 1 is not 2"))
    outcomes, todo = _outcomes(tmp_path, entries, "os._exit(0)")
    assert outcomes == [
        Outcome(_KEYS[0], Verdict.PASSED, ""),
        Outcome(_KEYS[1], Verdict.PASSED, ""),
        Outcome(_KEYS[2], Verdict.DIFFERS, "losses.0: 1 is not 2"),
    ]
    assert todo == []


def test_the_case_that_ends_the_process_crashed_and_later_ones_remain(tmp_path: Path) -> None:
    entries = [{"begins": "timm/resnet:cpu"}, _ends(_KEYS[0], "passed"), {"begins": _KEYS[1]}]
    outcomes, todo = _outcomes(tmp_path, entries, "os.abort()")
    assert [(outcome.key, outcome.verdict) for outcome in outcomes] == [
        (_KEYS[0], Verdict.PASSED),
        (_KEYS[1], Verdict.CRASHED),
    ]
    assert outcomes[1].cause == "its process exited -6"
    assert todo == _KEYS[2:]


def test_a_case_that_hangs_is_slow(tmp_path: Path) -> None:
    entries = [_ends(_KEYS[0], "passed"), {"begins": _KEYS[1]}]
    outcomes, todo = _outcomes(tmp_path, entries, "time.sleep(1000)", seconds=1.0)
    assert outcomes[1].verdict is Verdict.SLOW
    assert todo == _KEYS[2:]


def test_a_case_that_ends_the_process_on_the_cpu_is_broken(tmp_path: Path) -> None:
    outcomes, todo = _outcomes(tmp_path, [{"begins": "timm/resnet:cpu"}], "os._exit(3)")
    assert [(outcome.key, outcome.verdict) for outcome in outcomes] == [(_KEYS[0], Verdict.BROKEN)]
    assert todo == _KEYS[1:]
