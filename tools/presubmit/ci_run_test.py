# SPDX-License-Identifier: Apache-2.0
"""`.ci/run` itself, with a stand-in for Bazel."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

_WORKSPACE = pathlib.Path(__file__).parents[2]
_PROGRAM = ".ci/run"
_TALLY = [f"tools/presubmit/{name}.py" for name in ("__init__", "account", "results", "tally")]

# Says what it was asked, writes the events of a test, and fails at what FAIL names.
_BAZELW = """\
#!/bin/bash
echo "bazelw $*"
for argument in "$@"; do
  case "${argument}" in
    --build_event_json_file=*) cp events.json "${argument#*=}" ;;
  esac
done
cat  # waits for ever if it is given an open stdin
[[ "${FAIL}" == "$1" ]] && exit 1
exit 0
"""


@pytest.fixture
def clone(tmp_path: pathlib.Path) -> pathlib.Path:
    for path in (_PROGRAM, *_TALLY):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(_WORKSPACE / path, tmp_path / path)
    _script(tmp_path / "bazelw", _BAZELW)
    _script(tmp_path / "bazel-bin/examples/train.par", '#!/bin/bash\nmkdir "${1#*=}"\n')
    (tmp_path / "a.xml").write_text(
        "<testsuite><testcase name='a'/><testcase name='b'/>"
        "<testcase name='c'><skipped message='needs a mount'/></testcase></testsuite>"
    )
    output = {"name": "test.xml", "uri": (tmp_path / "a.xml").as_uri()}
    event = {
        "id": {"testResult": {"label": "//a:a_test", "run": 1, "shard": 1, "attempt": 1}},
        "testResult": {"status": "PASSED", "testActionOutput": [output]},
    }
    (tmp_path / "events.json").write_text(json.dumps(event))
    return tmp_path


def _script(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _run(clone: pathlib.Path, *, fail: str = "") -> tuple[int, list[str]]:
    reader, writer = os.pipe()  # a stdin that never ends, like a terminal
    try:
        done = subprocess.run(
            [clone / _PROGRAM],
            cwd="/",
            env={**os.environ, "FAIL": fail},
            stdin=reader,
            stdout=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(reader)
        os.close(writer)
    return done.returncode, done.stdout.splitlines()


def test_runs_the_commands_of_the_readme(clone: pathlib.Path) -> None:
    code, lines = _run(clone)
    assert code == 0
    assert lines[-1] == "2 passed, 0 failed, 1 skipped"
    asked = [line.split()[1] for line in lines if line.startswith("bazelw ")]
    assert asked == ["build", "test", "run"]
    assert sum("exit status 0 after" in line for line in lines) == 4


def test_says_before_the_last_line_what_ran_and_what_did_not(clone: pathlib.Path) -> None:
    _, lines = _run(clone)
    assert [line.split() for line in lines[-7:-1]] == [
        ["room", "ran", "passed", "failed", "skipped"],
        ["a", "2", "2", "0", "1"],
        ["device", "ran", "passed", "failed", "skipped"],
        ["no", "device", "2", "2", "0", "1"],
        ["skipped", "because"],
        ["1", "needs", "a", "mount"],
    ]


@pytest.mark.parametrize(
    ("verb", "step"), [("build", "build"), ("test", "test"), ("run", "presubmit")]
)
def test_a_failed_step_fails_the_run_and_stops_no_other(
    clone: pathlib.Path, verb: str, step: str
) -> None:
    code, lines = _run(clone, fail=verb)
    assert code == 1
    assert lines[-2:] == [f"failed: step '{step}' ended with 1", "2 passed, 1 failed, 1 skipped"]
    assert sum("exit status 0 after" in line for line in lines) == 3


def test_the_main_job_counts(clone: pathlib.Path) -> None:
    _script(clone / "bazel-bin/examples/train.par", "#!/bin/bash\nexit 5\n")
    code, lines = _run(clone)
    assert code == 1
    assert lines[-2:] == ["failed: step 'train' ended with 5", "2 passed, 1 failed, 1 skipped"]


def test_bazel_that_does_not_start(clone: pathlib.Path) -> None:
    (clone / "bazelw").unlink()
    code, lines = _run(clone)
    assert code == 1
    assert lines[-1] == "0 passed, 4 failed"
