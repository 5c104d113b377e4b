# SPDX-License-Identifier: Apache-2.0
import collections.abc
import json
import pathlib

import pytest

from tools.presubmit import tally

_PASSED = '<testcase classname="a_test" name="test_a" />'
_FAILED = '<testcase classname="a_test" name="test_b"><failure>trace</failure></testcase>'
_CRASHED = '<testcase name="a_test"><error message="exited with 139" /></testcase>'
_WRITTEN_BY_BAZEL = """<testcase name="a/a_test" status="run" duration="0" time="0"></testcase>
      <system-out>
Generated test.log (if the file is not UTF-8, then this may be unreadable):
<![CDATA[exec ${PAGER:-/usr/bin/less} "$0" || exit 1]]>
      </system-out>"""
_SKIPPED = '<testcase classname="a_test" name="test_c"><skipped message="why" /></testcase>'

SummaryLines = collections.abc.Callable[[], list[str]]


@pytest.fixture
def summary_lines(capsys: pytest.CaptureFixture[str]) -> SummaryLines:
    """Return a function that returns the printed failures and summary, without the tables."""

    def lines() -> list[str]:
        output = capsys.readouterr().out.splitlines()
        first = [index for index, line in enumerate(output) if line.startswith("failed: ")]
        return output[first[0] :] if first else output[-1:]

    return lines


class Run:
    """A fake `bazel test` run, with an events file and result files."""

    def __init__(self, root: pathlib.Path) -> None:
        self._root = root
        self._events: list[object] = [{"id": {"started": {}}, "started": {}}]

    def kind(self, label: str, kind: str) -> None:
        """Add the event that announces a target and its rule."""
        self._events.append(
            {"id": {"targetConfigured": {"label": label}}, "configured": {"targetKind": kind}}
        )

    def target(
        self,
        label: str,
        *cases: str,
        status: str = "PASSED",
        shard: int = 1,
        attempt: int = 1,
        properties: str = "",
    ) -> None:
        """Add the result of one attempt at one shard of a target."""
        outputs = [{"name": "test.log", "uri": (self._root / "test.log").as_uri()}]
        if cases:
            results = self._root / f"test of {len(self._events)}.xml"
            results.write_text(
                f"<testsuites><testsuite>{properties}{''.join(cases)}</testsuite></testsuites>"
            )
            outputs.append({"name": "test.xml", "uri": results.as_uri()})
        identity = {"label": label, "run": 1, "shard": shard, "attempt": attempt}
        result = {"status": status, "testActionOutput": outputs}
        self._events.append({"id": {"testResult": identity}, "testResult": result})

    def events(self) -> str:
        """Write the events file and return its path."""
        path = self._root / "events.json"
        path.write_text("\n".join(map(json.dumps, self._events)))
        return str(path)


@pytest.fixture
def run(tmp_path: pathlib.Path) -> Run:
    return Run(tmp_path)


def test_all_passed(run: Run, summary_lines: SummaryLines) -> None:
    run.target("//a:a_test", _PASSED, _PASSED)
    run.target("//b:b_test", _PASSED, shard=1)
    run.target("//b:b_test", _PASSED, shard=2)
    assert tally.main([run.events(), "build=0", "test=0"]) == 0
    assert summary_lines() == ["4 passed, 0 failed"]


def test_failures_are_named_and_skips_counted(run: Run, summary_lines: SummaryLines) -> None:
    run.target("//a:a_test", _PASSED, _FAILED, _SKIPPED, status="FAILED")
    assert tally.main([run.events(), "test=3"]) == 1
    assert summary_lines() == ["failed: //a:a_test a_test::test_b", "1 passed, 1 failed, 1 skipped"]


def test_failed_step_counts(run: Run, summary_lines: SummaryLines) -> None:
    run.target("//a:a_test", _PASSED)
    assert tally.main([run.events(), "presubmit=1", "test=0"]) == 1
    assert summary_lines() == ["failed: step 'presubmit' ended with 1", "1 passed, 1 failed"]


def test_status_of_tests_counts_unless_its_failures_do(
    run: Run, summary_lines: SummaryLines
) -> None:
    run.target("//a:a_test", _PASSED)
    assert tally.main([run.events(), "test=3"]) == 1
    assert summary_lines()[-1] == "1 passed, 1 failed"
    run.target("//b:b_test", _FAILED, status="FAILED")
    assert tally.main([run.events(), "test=1"]) == 1
    assert summary_lines()[-1] == "1 passed, 2 failed"


def test_the_files_of_several_runs_are_one_count(
    run: Run, summary_lines: SummaryLines, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run.target("//a:a_test", _PASSED)
    other = Run(tmp_path_factory.mktemp("other"))
    other.target("//b:b_test", _PASSED, _FAILED, status="FAILED")
    assert tally.main([run.events(), other.events(), "test=0", "static=3"]) == 1
    assert summary_lines() == ["failed: //b:b_test a_test::test_b", "2 passed, 1 failed"]


def test_only_steps_that_test_have_a_status_for_it(run: Run, summary_lines: SummaryLines) -> None:
    run.target("//a:a_test", _FAILED, status="FAILED")
    assert tally.main([run.events(), "test=3", "presubmit=3"]) == 1
    assert summary_lines()[-2:] == ["failed: step 'presubmit' ended with 3", "0 passed, 2 failed"]


@pytest.mark.parametrize("cases", [(), (_PASSED,)])
def test_target_that_failed_outside_its_cases(
    run: Run, summary_lines: SummaryLines, cases: tuple[str, ...]
) -> None:
    run.target("//a:a_test", *cases, status="TIMEOUT")
    assert tally.main([run.events()]) == 1
    assert summary_lines() == ["failed: //a:a_test TIMEOUT", f"{len(cases)} passed, 1 failed"]


def test_crash_that_bazel_wrote_down_counts_once(run: Run, summary_lines: SummaryLines) -> None:
    run.target("//a:a_test", _CRASHED, status="FAILED")
    assert tally.main([run.events(), "test=3"]) == 1
    assert summary_lines() == ["failed: //a:a_test a_test", "0 passed, 1 failed"]


def test_passing_without_a_case_is_a_failure(run: Run, summary_lines: SummaryLines) -> None:
    run.target("//a:a_test")
    assert tally.main([run.events()]) == 1
    assert summary_lines() == ["failed: //a:a_test ran no test case", "0 passed, 1 failed"]


@pytest.mark.parametrize(
    ("kind", "summary"),
    [
        ("par_program_test rule", "0 passed, 1 failed"),
        ("par_packed_test rule", "0 passed, 1 failed"),
        ("sh_test rule", "1 passed, 0 failed"),
    ],
)
def test_success_that_pytest_did_not_write(
    run: Run, summary_lines: SummaryLines, kind: str, summary: str
) -> None:
    run.kind("//a:a_test", kind)
    run.target("//a:a_test", _WRITTEN_BY_BAZEL)
    tally.main([run.events()])
    assert summary_lines()[-1] == summary


_FBCODE = '<properties><property name="PYTORCH_TEST_FBCODE" value="%s"/></properties>'
_WITHOUT = "failed: //a:a_test ran without PYTORCH_TEST_FBCODE=1; see .bazelrc"


@pytest.mark.parametrize(
    "kind", ["par_program_test rule", "par_packed_test rule", "par_shared_test rule"]
)
@pytest.mark.parametrize(
    ("properties", "failures"),
    [(_FBCODE % "1", []), (_FBCODE % "0", [_WITHOUT]), ("", [_WITHOUT])],
)
def test_every_par_test_runs_as_in_a_monorepo(
    run: Run, summary_lines: SummaryLines, kind: str, properties: str, failures: list[str]
) -> None:
    run.kind("//a:a_test", kind)
    run.target("//a:a_test", _PASSED, properties=properties)
    tally.main([run.events()])
    lines = summary_lines()
    assert [line for line in lines if line.startswith("failed:")] == failures
    assert lines[-1] == f"1 passed, {len(failures)} failed"


def test_last_attempt_counts(run: Run, summary_lines: SummaryLines) -> None:
    run.target("//a:a_test", _PASSED, attempt=2)
    run.target("//a:a_test", _FAILED, status="FAILED", attempt=1)
    assert tally.main([run.events()]) == 0
    assert summary_lines() == ["1 passed, 0 failed"]


def test_nothing_ran(run: Run, summary_lines: SummaryLines) -> None:
    assert tally.main([run.events()]) == 1
    assert summary_lines() == ["0 passed, 0 failed"]


def test_no_events(tmp_path: pathlib.Path, summary_lines: SummaryLines) -> None:
    assert tally.main([str(tmp_path / "absent.json"), "build=1"]) == 1
    lines = summary_lines()
    assert "No such file or directory; bazel test did not start" in lines[0]
    assert lines[1:] == ["failed: step 'build' ended with 1", "0 passed, 2 failed"]


@pytest.mark.parametrize("text", ["", "<testsuites><testsuite>", "not xml"])
def test_unreadable_results(
    run: Run, summary_lines: SummaryLines, tmp_path: pathlib.Path, text: str
) -> None:
    run.target("//a:a_test", _PASSED)
    events = run.events()
    (results,) = tmp_path.glob("*.xml")
    results.write_text(text)
    assert tally.main([events]) == 1
    assert summary_lines()[0].startswith(f"failed: {results}: ")


def test_events_cut_off(run: Run, summary_lines: SummaryLines) -> None:
    run.target("//a:a_test", _PASSED)
    events = pathlib.Path(run.events())
    events.write_text(events.read_text()[:-5])
    assert tally.main([str(events)]) == 1
    assert "bazel was stopped" in summary_lines()[0]
