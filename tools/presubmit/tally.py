# SPDX-License-Identifier: Apache-2.0
"""Counts the test cases of one `bazel test`: `python3 tally.py EVENTS [STEP=STATUS ...]`.

EVENTS is the file that `bazel test --build_event_json_file` wrote: it names the result files of
that very run, cached ones included, so that what an earlier run left behind is not counted. Each
STEP of the caller with a STATUS other than 0 counts as one more failure; `test=3` is Bazel's word
for "tests failed", which are counted already. Standard library only, because it must have a result
even when nothing could be built.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import json
import pathlib
import sys
import urllib.parse
import urllib.request
import xml.etree.ElementTree

_TESTS_FAILED = "test=3"
# Rules whose tests write their own results. Where they did not, Bazel wrote one case for the target.
_PYTEST_RULES = ("par_program_test rule", "par_packed_test rule")
_WRITTEN_BY_BAZEL = "Generated test.log"


class TallyError(Exception):
    """The events or a result file cannot be read: one line with the file and the reason."""


@dataclasses.dataclass
class Tally:
    """Numbers of test cases, and a line for each failure."""

    passed: int = 0
    skipped: int = 0
    failures: list[str] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        return f"{self.passed} passed, {len(self.failures)} failed{skipped}"


@dataclasses.dataclass(frozen=True)
class Attempt:
    """The last attempt at one shard of one test target."""

    label: str
    kind: str
    status: str
    results: pathlib.Path | None


def main(argv: collections.abc.Sequence[str]) -> int:
    """Prints the failures, then the summary line. Returns 0 if all that ran passed, and some ran."""
    events, *steps = argv
    tally = Tally()
    try:
        for attempt in attempts(pathlib.Path(events)):
            count(attempt, tally)
    except TallyError as error:
        tally.failures.append(str(error))
    for step in steps:
        name, _, status = step.rpartition("=")
        if status != "0" and not (step == _TESTS_FAILED and tally.failures):
            tally.failures.append(f"step '{name}' ended with {status}")
    for failure in tally.failures:
        print(f"failed: {failure}")
    print(tally)
    return 0 if tally.passed and not tally.failures else 1


def attempts(events: pathlib.Path) -> list[Attempt]:
    """The last attempt at each shard, in the order of labels.

    Raises:
        TallyError: the file is missing or is not what Bazel writes.
    """
    found: dict[tuple[str, int, int], tuple[int, Attempt]] = {}
    kinds: dict[str, str] = {}
    try:
        lines = events.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise TallyError(f"{events}: {error.strerror}; bazel test did not start") from error
    for number, line in enumerate(lines, start=1):
        try:
            event = json.loads(line)
        except json.JSONDecodeError as error:
            raise TallyError(f"{events}:{number}: {error}; bazel was stopped") from error
        if "configured" in event:
            kinds[event["id"]["targetConfigured"]["label"]] = event["configured"]["targetKind"]
        if "testResult" not in event:
            continue
        identity = event["id"]["testResult"]
        label = identity["label"]
        shard = (label, identity.get("run", 1), identity.get("shard", 1))
        turn = identity.get("attempt", 1)
        if turn >= found.get(shard, (0, None))[0]:
            found[shard] = (turn, _attempt(label, kinds.get(label, ""), event["testResult"]))
    return [attempt for _, (_, attempt) in sorted(found.items(), key=lambda item: item[0])]


def count(attempt: Attempt, tally: Tally) -> None:
    """Adds the cases of one attempt.

    A target that failed though none of its cases did (it crashed, or ran out of time) is one
    failure; so is one that passed without having run a case.

    Raises:
        TallyError: its result file cannot be read.
    """
    cases = _cases(attempt)
    before = len(tally.failures)
    for case in cases:
        children = {child.tag for child in case}
        if children & {"failure", "error"}:
            name = f"{case.get('classname', '')}::{case.get('name', '')}".removeprefix("::")
            tally.failures.append(f"{attempt.label} {name}")
        elif "skipped" in children:
            tally.skipped += 1
        else:
            tally.passed += 1
    if attempt.status != "PASSED" and len(tally.failures) == before:
        tally.failures.append(f"{attempt.label} {attempt.status}")
    elif not cases:
        tally.failures.append(f"{attempt.label} ran no test case")


def _attempt(label: str, kind: str, result: dict[str, object]) -> Attempt:
    outputs = result.get("testActionOutput", [])
    assert isinstance(outputs, list)
    uris = [output["uri"] for output in outputs if output["name"] == "test.xml"]
    return Attempt(
        label=label,
        kind=kind,
        status=str(result["status"]),
        results=_path(uris[0]) if uris else None,
    )


def _path(uri: str) -> pathlib.Path:
    return pathlib.Path(urllib.request.url2pathname(urllib.parse.urlsplit(uri).path))


def _cases(attempt: Attempt) -> list[xml.etree.ElementTree.Element]:
    if attempt.results is None:
        return []
    try:
        suites = xml.etree.ElementTree.parse(attempt.results)
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        raise TallyError(f"{attempt.results}: {error}; the test was stopped as it wrote") from error
    cases = [*suites.iter("testcase")]
    said = "".join(element.text or "" for element in suites.iter("system-out"))
    # A success that pytest knows nothing of: the program ended before it had started pytest.
    ended_early = attempt.status == "PASSED" and said.lstrip().startswith(_WRITTEN_BY_BAZEL)
    return [] if ended_early and attempt.kind in _PYTEST_RULES else cases


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
