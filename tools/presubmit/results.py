# SPDX-License-Identifier: Apache-2.0
"""Read test results: the events of a `bazel test` run, and each target's pytest result file.

This module may import only the standard library, directly or indirectly, because the host's python3
runs it even after a failed build.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import pathlib
import urllib.parse
import urllib.request
import xml.etree.ElementTree

# Rules whose tests run pytest, which writes a result file. If the file is missing, Bazel writes one
# with a single case for the whole target.
_PYTEST_RULES = ("par_program_test rule", "par_packed_test rule", "par_shared_test rule")
_ADDED = frozenset({"cpu_seconds"})
_WRITTEN_BY_BAZEL = "Generated test.log"


class ResultsError(Exception):
    """Raised if an event or result file is unreadable. The message is one line: file and reason."""


class Outcome(enum.Enum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclasses.dataclass(frozen=True)
class Case:
    """A test case. `reason` says why it was skipped; `device` is the device under test, if any."""

    name: str
    outcome: Outcome
    reason: str = ""
    device: str = ""


@dataclasses.dataclass(frozen=True)
class Cases:
    """The contents of one result file: its test cases, and properties that the run recorded."""

    cases: tuple[Case, ...] = ()
    properties: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Attempt:
    """The last attempt at one shard of one test target. `seconds` is its elapsed time."""

    label: str
    kind: str
    status: str
    results: pathlib.Path | None
    seconds: float = 0.0

    @property
    def by_pytest(self) -> bool:
        """Return whether the target runs pytest, which writes its own result file."""
        return self.kind in _PYTEST_RULES


def attempts(events: pathlib.Path) -> list[Attempt]:
    """Return the last attempt at each shard of each target, sorted by label.

    Raises:
        ResultsError: the file is missing, or is not an event file from Bazel.
    """
    latest: dict[tuple[str, int, int], tuple[int, Attempt]] = {}
    rule_kinds: dict[str, str] = {}
    try:
        lines = events.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ResultsError(f"{events}: {error.strerror}; bazel test did not start") from error
    for number, line in enumerate(lines, start=1):
        try:
            event = json.loads(line)
        except json.JSONDecodeError as error:
            raise ResultsError(f"{events}:{number}: {error}; bazel was stopped") from error
        if "configured" in event:
            rule_kinds[event["id"]["targetConfigured"]["label"]] = event["configured"]["targetKind"]
        if "testResult" not in event:
            continue
        identity = event["id"]["testResult"]
        label = identity["label"]
        shard = (label, identity.get("run", 1), identity.get("shard", 1))
        turn = identity.get("attempt", 1)
        if turn >= latest.get(shard, (0, None))[0]:
            latest[shard] = (turn, _attempt(label, rule_kinds.get(label, ""), event["testResult"]))
    return [attempt for _, (_, attempt) in sorted(latest.items(), key=lambda item: item[0])]


def cases(attempt: Attempt) -> Cases:
    """Return the test cases of an attempt, or none if the program exited before pytest started.

    Raises:
        ResultsError: the attempt's result file cannot be read.
    """
    if attempt.results is None:
        return Cases()
    suites, output = _read(attempt.results)
    # The program exited with status 0 before it started pytest, so Bazel wrote the result file.
    ended_early = attempt.status == "PASSED" and output.lstrip().startswith(_WRITTEN_BY_BAZEL)
    return Cases() if ended_early and attempt.by_pytest else suites


def read(path: pathlib.Path) -> Cases:
    """Return the cases of a JUnit XML file written by pytest or Bazel.

    Raises:
        ResultsError: the file does not exist or is not XML.
    """
    return _read(path)[0]


def _read(path: pathlib.Path) -> tuple[Cases, str]:
    try:
        suites = xml.etree.ElementTree.parse(path)
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        raise ResultsError(f"{path}: {error}; the test was stopped while writing it") from error
    output = "".join(element.text or "" for element in suites.iter("system-out"))
    properties: dict[str, str] = {}
    for suite in suites.iter("testsuite"):
        own = _properties(suite)
        # Each test file of a target records its own CPU time, so add up the times.
        for name in _ADDED.intersection(properties, own):
            own[name] = str(float(properties[name]) + float(own[name]))
        properties |= own
    return Cases(tuple(_case(case) for case in suites.iter("testcase")), properties), output


def _case(case: xml.etree.ElementTree.Element) -> Case:
    name = f"{case.get('classname', '')}::{case.get('name', '')}".removeprefix("::")
    device = _properties(case).get("device", "")
    skipped = case.find("skipped")
    if case.find("failure") is not None or case.find("error") is not None:
        return Case(name, Outcome.FAILED, device=device)
    if skipped is None:
        return Case(name, Outcome.PASSED, device=device)
    return Case(name, Outcome.SKIPPED, _reason(skipped), device)


def _reason(skipped: xml.etree.ElementTree.Element) -> str:
    reason = skipped.get("message") or skipped.get("type") or ""
    return reason.removeprefix("Skipped: ").strip()


def _properties(element: xml.etree.ElementTree.Element) -> dict[str, str]:
    rows = element.findall("properties/property")
    return {row.get("name", ""): row.get("value", "") for row in rows}


def _attempt(label: str, kind: str, result: dict[str, object]) -> Attempt:
    outputs = result.get("testActionOutput", [])
    assert isinstance(outputs, list)
    uris = [output["uri"] for output in outputs if output["name"] == "test.xml"]
    return Attempt(
        label=label,
        kind=kind,
        status=str(result["status"]),
        results=_path(uris[0]) if uris else None,
        seconds=int(str(result.get("testAttemptDurationMillis", 0))) / 1000,
    )


def _path(uri: str) -> pathlib.Path:
    return pathlib.Path(urllib.request.url2pathname(urllib.parse.urlsplit(uri).path))
