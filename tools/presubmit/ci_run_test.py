# SPDX-License-Identifier: Apache-2.0
"""Test `.ci/run` and `.ci/static` with a fake Bazel."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

_WORKSPACE = pathlib.Path(__file__).parents[2]
_PROGRAM = ".ci/run"
_STATIC = ".ci/static"
_TALLY = [
    f"tools/presubmit/{name}.py"
    for name in ("__init__", "account", "results", "rotation", "seconds", "tally")
]

# A fake Bazel. It prints its arguments, answers a query with two targets, writes a build event
# file, and fails if $FAIL is one of its arguments. $CACHES is the state of the static build's
# caches: `all` if they contain every entry, or else the message that Bazel prints if an entry is
# missing.
_BAZELW = """\
#!/bin/bash
if [[ "$1" == query ]]; then
  echo "bazelw $*" >&2
  printf '%s\n' //a:a_test //b:b_test
  exit 0
fi
echo "bazelw $*"
for argument in "$@"; do
  case "${argument}" in
    --build_event_json_file=*) cp events.json "${argument#*=}" ;;
  esac
done
cat  # hangs if stdin stays open
if [[ "$*" == *--allowed_local_actions_regex=nothing* ]]; then
  [[ "${CACHES}" == all ]] && exit 0
  echo "ERROR: ${CACHES}" >&2
  exit 1
fi
[[ " $* " == *" ${FAIL} "* ]] && exit 1
exit 0
"""


@pytest.fixture
def clone(tmp_path: pathlib.Path) -> pathlib.Path:
    for path in (_PROGRAM, _STATIC, *_TALLY):
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


_LACKING = "Compiling a.cpp failed: Action type CppCompile is not allowed to run locally due to ..."


def _run(
    clone: pathlib.Path, *, fail: str = "-", caches: str = _LACKING, program: str = _PROGRAM
) -> tuple[int, list[str]]:
    """Run `program` with `clone`/programs first on PATH. Return the exit status and the output."""
    reader, writer = os.pipe()  # a stdin that never ends, like a terminal
    try:
        done = subprocess.run(
            [clone / program],
            cwd="/",
            env={
                **os.environ,
                "FAIL": fail,
                "CACHES": caches,
                "PATH": f"{clone}/programs:{os.environ['PATH']}",
            },
            stdin=reader,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
    finally:
        os.close(reader)
        os.close(writer)
    return done.returncode, done.stdout.splitlines()


def _bazel_calls(lines: list[str]) -> list[str]:
    return [line.removeprefix("bazelw ") for line in lines if line.startswith("bazelw ")]


def test_runs_the_commands_of_the_readme(clone: pathlib.Path) -> None:
    code, lines = _run(clone)
    assert code == 0
    assert lines[-1] == "8 passed, 0 failed, 4 skipped"
    assert [line.split()[0] for line in _bazel_calls(lines)] == [
        "build",
        "test",
        "run",
        "build",
        "query",
        "test",
        "test",
        "test",
    ]
    assert sum("exit status 0 after" in line for line in lines) == 8


@pytest.mark.parametrize(("free", "warns"), [(15_999, True), (16_000, False)])
def test_warns_at_the_start_if_a_cold_run_does_not_fit(
    clone: pathlib.Path, free: int, warns: bool
) -> None:
    _script(clone / "programs/df", f"#!/bin/bash\nprintf 'Avail\\n{free}\\n'\n")
    code, lines = _run(clone)
    assert code == 0
    warning = f"has {free} MB of disk free. A cold run needs 16000 MB; free some first"
    assert (warning in lines[0]) == warns
    assert sum(line.endswith(f"; {free} MB of disk free") for line in lines) == 8


def test_says_before_the_last_line_what_ran_and_what_did_not(clone: pathlib.Path) -> None:
    _, lines = _run(clone)
    assert [line.split() for line in lines[-7:-1]] == [
        ["room", "ran", "passed", "failed", "skipped"],
        ["a", "8", "8", "0", "4"],
        ["device", "ran", "passed", "failed", "skipped"],
        ["no", "device", "8", "8", "0", "4"],
        ["skipped", "because"],
        ["4", "needs", "a", "mount"],
    ]


@pytest.mark.parametrize(
    ("word", "step"),
    [
        ("//examples:train.par", "build"),
        ("//...", "test"),
        ("//tools/presubmit", "presubmit"),
        ("--nobuild", "analysis"),
        ("--config=full", "full"),
        ("//tests/aot:slice_test", "aot"),
        ("--config=static", "static"),
    ],
)
def test_a_failed_step_fails_the_run_and_stops_no_other(
    clone: pathlib.Path, word: str, step: str
) -> None:
    code, lines = _run(clone, fail=word)
    assert code == 1
    assert lines[-2:] == [f"failed: step '{step}' ended with 1", "8 passed, 1 failed, 4 skipped"]
    assert sum("exit status 0 after" in line for line in lines) == 7


def test_a_part_of_the_full_run_fits_into_the_time_left(clone: pathlib.Path) -> None:
    (clone / "tests").mkdir()
    rows = {
        "//a:a_test": {"total": 1_000_000, "longest": 1_000_000, "shards": 1},
        "//b:b_test": {"total": 1, "longest": 1, "shards": 1},
    }
    (clone / "tests/seconds.json").write_text(json.dumps({"default": {}, "full": rows}))
    _, lines = _run(clone)
    (full,) = [line for line in _bazel_calls(lines) if "--config=full" in line]
    (summary,) = [line for line in lines if line.startswith("full run, turn ")]
    assert ": 1 of 2 targets, //b:b_test" in summary
    assert full.split()[-1] == "//b:b_test"
    assert any("--config=full //a:a_test" in line for line in lines)


def test_the_main_job_counts(clone: pathlib.Path) -> None:
    _script(clone / "bazel-bin/examples/train.par", "#!/bin/bash\nexit 5\n")
    code, lines = _run(clone)
    assert code == 1
    assert lines[-2:] == ["failed: step 'train' ended with 5", "8 passed, 1 failed, 4 skipped"]


def test_bazel_that_does_not_start(clone: pathlib.Path) -> None:
    (clone / "bazelw").unlink()
    code, lines = _run(clone)
    assert code == 1
    assert lines[-1] == "0 passed, 11 failed"


@pytest.mark.parametrize(
    ("caches", "line", "targets"),
    [
        (
            "all",
            "static: every object of torch is in a cache",
            "//third_party/torch/source/tests //tests/static/... //tests/upstream:smoke "
            "//torch_google/tpu/...",
        ),
        (
            _LACKING,
            "static: not every object of torch is in a cache",
            "@torch_source//:c10 //third_party/clang/...",
        ),
    ],
)
def test_the_caches_decide_what_is_tested_of_the_static_build(
    clone: pathlib.Path, caches: str, line: str, targets: str
) -> None:
    code, lines = _run(clone, caches=caches, program=_STATIC)
    assert code == 0
    assert lines[0].startswith(line)
    assert lines[1:] == [f"bazelw test --config=static {targets}"]


def test_a_static_build_that_is_broken_is_no_matter_of_caches(clone: pathlib.Path) -> None:
    code, lines = _run(clone, caches="no such target", program=_STATIC)
    assert code == 1
    assert "ERROR: no such target" in lines
    assert lines[-1].startswith("static: //torch_google/tpu/csrc:extensions: ")
    assert lines[-1].endswith(": cannot be built, exit status 1; the errors are above")
    assert not [line for line in _bazel_calls(lines) if line.startswith("test")]
