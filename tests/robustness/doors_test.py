# SPDX-License-Identifier: Apache-2.0
"""Test a PAR's doors: the environment variables that change how it starts.

The tests also check that other tools can read a PAR as a zip file.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import zipfile

import pytest

from tests.robustness import subject

_DOORS = (
    "PAR_CACHE_DIR",
    "PAR_DEBUG",
    "PAR_FAST_EXIT",
    "PAR_HELP",
    "PAR_INFO",
    "PAR_INTERPRETER",
    "PAR_LIST",
    "PAR_MAIN",
    "PAR_STARTUP_GC",
    "PAR_TRACE_IMPORTS",
    "PAR_VERIFY",
)


@pytest.fixture
def cache(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "cache"


def _open(cache: pathlib.Path, *arguments: str, stdin: str = "", **doors: str) -> subject.Outcome:
    return subject.run(
        [subject.PROBE, *arguments],
        environment={"PAR_CACHE_DIR": str(cache), **doors},
        stdin=stdin,
    )


def test_help_names_every_door(cache: pathlib.Path) -> None:
    outcome = _open(cache, PAR_HELP="1")
    assert (outcome.status, outcome.err) == (0, "")
    assert [door for door in _DOORS if door not in outcome.out] == []


def test_info_says_what_it_was_built_from(cache: pathlib.Path) -> None:
    info = json.loads(_open(cache, PAR_INFO="1").out)
    assert info["main"] == "tests.robustness.probe"
    assert info["python"].startswith("3.11.")


def test_info_of_a_torch_program_names_the_release_and_its_patches(cache: pathlib.Path) -> None:
    par = subject.packed("examples/train.par")
    outcome = subject.run([par], environment={"PAR_CACHE_DIR": str(cache), "PAR_INFO": "1"})
    torch = json.loads(outcome.out)["torch"]
    assert torch["tag"].startswith("v2.")
    # v2.6.0 is built from an archive that is pinned by its hash, so no git tree is recorded.
    keys = ["commit", "series", *(["tree"] if torch["tag"] != "v2.6.0" else [])]
    for key in keys:
        assert len(bytes.fromhex(torch[key])) in (20, 32), key


def test_list_names_sources_and_libraries(cache: pathlib.Path) -> None:
    names = {line.split()[-1] for line in _open(cache, PAR_LIST="1").out.splitlines()}
    assert {
        "lib/python3.11/json/__init__.py",
        "numpy/__init__.py",
        "numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so",
        "tests/robustness/probe.py",
    } <= names


def test_main_runs_a_module_or_a_function(cache: pathlib.Path) -> None:
    function = _open(cache, "a", PAR_MAIN="tests.robustness.probe:hello")
    assert (function.status, function.out) == (0, "hello ['a']\n")
    module = _open(cache, PAR_MAIN="platform")
    assert module.status == 0
    assert module.out.startswith("Linux")


def test_main_of_an_absent_module_is_one_line(cache: pathlib.Path) -> None:
    _open(cache, PAR_MAIN="no.such").assert_refused("no.such")
    _open(cache, PAR_MAIN="tests.robustness.probe:goodbye").assert_refused("goodbye")


@pytest.mark.parametrize(
    ("target", "needle"),
    [
        (".x", "full name"),
        ("x..y", "full name"),
        ("sys", "no code"),
        ("sys:no", "no function"),
        ("math", "no code"),
        ("0", "full name"),
        ("__main__", "no module"),
        ("__main__:main", "no module"),
    ],
)
def test_main_that_cannot_be_run_is_one_line(cache: pathlib.Path, target: str, needle: str) -> None:
    module = target.partition(":")[0]
    _open(cache, PAR_MAIN=target).assert_refused(str(subject.PROBE), module, needle)


@pytest.mark.parametrize("value", ["", "0"])
@pytest.mark.parametrize(
    "door", ["PAR_HELP", "PAR_INFO", "PAR_INTERPRETER", "PAR_LIST", "PAR_TRACE_IMPORTS"]
)
def test_zero_and_nothing_leave_a_door_shut(cache: pathlib.Path, door: str, value: str) -> None:
    _open(cache, **{door: value}).assert_ran()


@pytest.mark.parametrize("door", ["PAR_HELP", "PAR_INFO", "PAR_LIST"])
@pytest.mark.parametrize("output", [">&4", "> /dev/full", ">&-"])
def test_a_door_that_cannot_print_says_so(cache: pathlib.Path, door: str, output: str) -> None:
    """The script opens descriptor 4 as a pipe and closes the read end, so writes to it fail."""
    pipe = 'mkfifo "$3"; exec 3<>"$3" 4>"$3" 3<&-'
    start = f'({door}=1 PAR_CACHE_DIR="$2" "$1"; echo "status $?" >&2) {output}'
    arguments = [subject.PROBE, cache, cache.with_name("pipe")]
    outcome = subject.run(["/bin/sh", "-c", f"{pipe}; {start}", "sh", *arguments])
    line, status = outcome.err.splitlines()
    assert status == "status 1"
    assert f"{subject.PROBE}: {door}: cannot write to standard output: " in line


def test_an_argument_is_no_door(cache: pathlib.Path) -> None:
    outcome = _open(cache, "--par-interpreter", "x")
    outcome.assert_ran()
    assert outcome.seen["argv"] == ["--par-interpreter", "x"]


def test_an_uncaught_exception_shows_the_programs_own_lines(cache: pathlib.Path) -> None:
    outcome = _open(cache, PAR_MAIN="tests.robustness.probe:fail")
    assert outcome.status == 1
    first, location, *rest = outcome.err.splitlines()
    assert first == "Traceback (most recent call last):"
    assert location.startswith(f'  File "{subject.PROBE}/tests/robustness/probe.py", line ')
    assert rest == ['    raise ValueError("no")', "ValueError: no"]


def test_interpreter_takes_code_a_module_a_file_and_a_prompt(
    cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys, numpy; print(numpy.ones(2).sum(), sys.argv[1:])")

    def answer(*arguments: str, stdin: str = "") -> str:
        outcome = _open(cache, *arguments, stdin=stdin, PAR_INTERPRETER="1")
        assert (outcome.status, outcome.err) == (0, "")
        return outcome.out

    assert answer("-c", "import sys; print(sys.argv)", "x") == "['-c', 'x']\n"
    assert answer("-m", "json.tool", "--compact", stdin='{"a": 1}') == '{"a":1}\n'
    assert answer(str(script), "y") == "2.0 ['y']\n"
    assert answer(stdin="print(6 * 7)\n") == "42\n"


def test_trace_names_each_import_on_stderr(cache: pathlib.Path) -> None:
    outcome = _open(cache, PAR_TRACE_IMPORTS="1")
    assert outcome.seen["sum"] == 45
    lines = outcome.err.splitlines()
    assert any(" numpy " in line and "numpy/__init__.py" in line for line in lines)
    assert any("_multiarray_umath" in line and ".so" in line for line in lines)


def test_doors_do_not_reach_the_programs_own_children(cache: pathlib.Path) -> None:
    program = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1)'])"
    assert _open(cache, "-c", program, PAR_INTERPRETER="1").out == "1\n"


def test_it_is_a_zip_file_to_python(cache: pathlib.Path) -> None:
    assert zipfile.ZipFile(subject.PROBE).getinfo("numpy/__init__.py").file_size > 0
    outcome = _open(cache, "-m", "zipfile", "-l", str(subject.PROBE), PAR_INTERPRETER="1")
    assert outcome.status == 0, outcome.err
    assert "tests/robustness/probe.py" in outcome.out


@pytest.mark.skipif(shutil.which("unzip") is None, reason="this machine has no unzip")
def test_it_is_a_zip_file_to_unzip() -> None:
    outcome = subject.run(["unzip", "-l", subject.PROBE], environment={"PATH": os.environ["PATH"]})
    # The status is 1 if unzip warns about extra bytes (the launcher) before the archive.
    assert outcome.status in (0, 1), outcome.err
    assert "tests/robustness/probe.py" in outcome.out
