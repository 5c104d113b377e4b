# SPDX-License-Identifier: Apache-2.0
"""Test the whole benchmark with a fake Bazel: edits are applied, built and reverted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import results
from benchmarks.static_rebuild import __main__ as program
from benchmarks.static_rebuild import report, usage
from benchmarks.static_rebuild.clone import Clone
from benchmarks.static_rebuild.edits import EDITS, Edit, EditError, Places, Way, editing
from benchmarks.static_rebuild.measure import Figure
from tools.importer import apply_series, load_series

# A fake bazelw: it copies `upstream` as @torch_source, and "builds" a program by concatenating the
# files that the edits change.
_BAZELW = """#!/bin/sh
output=${1#--output_base=}; shift
source=$output/external/_main~torch~torch_source
mkdir -p "$output/external"
echo "$*" >>"$output/../calls"
[ "$1" != info ] || { echo $PPID; exit; }
[ "$1" = build ] || exit 0
echo "INFO: building" >&2
[ -e upstream/broken ] && { echo "ERROR: broken" >&2; exit 1; }
[ -d "$source" ] || cp -r upstream "$source"
tree=$source
for word; do
  case $word in
    --override_repository=_main~torch~torch_source=*) tree=${word#*=*=} ;;
    --build_event_json_file=*) events=${word#*=}; echo '{"id": {}}' >"$events" ;;
    --nobuild) exit 0 ;;
  esac
done
[ "$(cat interrupt 2>/dev/null)" != "$(grep -c build "$output/../calls")" ] || kill -"$(cat signal)" $PPID
mkdir -p bazel-bin/examples
find patches "$tree" -type f -exec cat examples/training.py {} + >bazel-bin/examples/train.par
echo '{"buildMetrics": {"actionSummary": {"runnerCount":
  [{"name": "total", "count": 3}, {"name": "linux-sandbox", "count": 2}]}}}' | tr -d '\\n' >>"$events"
"""


def _write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def _git(root: Path, *arguments: str) -> str:
    names = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    return subprocess.run(
        ["git", *names, *arguments], cwd=root, check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    """During a test, make SIGINT raise KeyboardInterrupt, even if the test runner ignores it."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    upstream = {}
    for edit in EDITS.values():
        text = f'first\nsecond\nraise "{edit.find}: of this"\nlast\n'
        upstream[edit.path if edit.way is Way.WORKSPACE else f"upstream/{edit.path}"] = text
    _write(
        root,
        {
            **upstream,
            "bazelw": _BAZELW,
            ".gitignore": "/bazel-*\n/.bazelrc.user\n",
            "patches/torch/v9/series": "# none yet\n",
            "third_party/torch/source/pin.json": '{"tag": "v9"}',
        },
    )
    (root / "bazelw").chmod(0o755)
    _git(root, "init", "--quiet")
    _commit(root)
    return root


def _commit(root: Path) -> None:
    _git(root, "add", ".")
    _git(root, "commit", "--quiet", "-m", "all")


def _calls(work: Path) -> list[str]:
    return (work / "calls").read_text().splitlines()


def test_a_hook_of_another_repository_leads_no_command_there(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    _write(other, {"kept": "kept\n", "untracked": "kept\n"})
    _git(other, "init", "--quiet")
    _git(other, "add", "kept")
    _git(other, "commit", "--quiet", "-m", "all")
    head = _git(other, "rev-parse", "HEAD")
    with monkeypatch.context() as hook:
        hook.setenv("GIT_DIR", str(other / ".git"))
        hook.setenv("GIT_WORK_TREE", str(other))
        hook.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
        clone = Clone(source, tmp_path / "work")
    assert (clone.root / "bazelw").is_file()
    assert (other / "untracked").is_file()
    assert _git(other, "rev-parse", "HEAD") == head


def test_every_edit_is_built_and_taken_back(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work"
    (source / ".bazelrc.user").write_text("build --jobs=1\n")
    arguments = ["--source", str(source), "--work", str(work), "--rounds=2", "--bazel=--jobs=2"]
    assert program.main(arguments) == 0
    written = results.read(work / "rebuild.json")
    assert [figure.runs for figure in written.figures] == [2] * 6
    assert list(written.details) == ["nothing", *EDITS]
    assert [len(figure["walls"]) for figure in written.details.values()] == [2] * 6
    assert written.details["nothing"]["runners"] == {"linux-sandbox": 2}
    table = capsys.readouterr().out
    assert "| a C++ file of torch | a local tree (--override_repository) |" in table
    assert table.count("| linux-sandbox 2 |") == 6
    builds = [call for call in _calls(work) if call.startswith("build --config=static")]
    assert all("--jobs=2" in call and call.endswith(" //examples:train.par") for call in builds)
    # One warm-up build, two no-op builds, and three builds for each edit.
    assert len(builds) == 1 + 2 + 3 * len(EDITS)
    assert len([call for call in builds if "--override_repository" in call]) == 6
    assert _calls(work)[-1] == "shutdown"
    assert _git(work / "clone", "status", "--porcelain") == ""
    assert (work / "clone/.bazelrc.user").read_text() == "build --jobs=1\n"
    tree = (work / "torch_source" / EDITS["cpp"].path).read_text()
    assert tree == (source / "upstream" / EDITS["cpp"].path).read_text()
    assert _git(source, "status", "--porcelain") == ""


@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_an_interrupt_takes_the_edit_back(
    name: str, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Interrupt the fourth build, which is the first after an edit. It follows a warm-up build, a
    # no-op build, and the build just before the edit.
    (source / "interrupt").write_text("4")
    (source / "signal").write_text(name)
    _commit(source)
    work = tmp_path / "work"
    arguments = ["--source", str(source), "--work", str(work), "--rounds=1", "--edits", "cpp_patch"]
    assert program.main(arguments) == 130
    assert "interrupted" in capsys.readouterr().err
    assert _calls(work)[-1] == "shutdown"
    assert _git(work / "clone", "status", "--porcelain") == ""
    assert not (work / "rebuild.json").exists()


def test_what_was_left_by_a_killed_run_goes(source: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    arguments = ["--source", str(source), "--work", str(work), "--rounds=1", "--edits"]
    assert program.main([*arguments, "our_python"]) == 0
    (work / "clone/examples/training.py").write_text("half an edit")
    (work / "clone/patches/torch/v9/left.patch").write_text("")
    (source / "new").write_text("of a later commit")
    _commit(source)
    assert program.main([*arguments, "our_python"]) == 0
    assert (work / "clone/new").is_file()
    assert _git(work / "clone", "status", "--porcelain") == ""


def test_a_cold_build_has_no_cache_and_leaves_nothing(source: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    assert program.main(["--source", str(source), "--work", str(work), "--cold"]) == 0
    builds = [call for call in _calls(work) if call.startswith("build")]
    assert len(builds) == 2
    assert all(f" --disk_cache={work}/cold_cache --remote_cache= " in call for call in builds)
    assert " --nobuild " in builds[0]
    assert " --nobuild " not in builds[1]
    assert sorted(path.name for path in work.iterdir()) == [
        "bazel.log",
        "calls",
        "clone",
        "cold.json",
        "events.json",
    ]


def test_a_build_that_fails_says_bazels_last_words(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (source / "upstream/broken").write_text("")
    _commit(source)
    assert program.main(["--source", str(source), "--work", str(tmp_path / "work")]) == 1
    assert "ended with status 1:\nINFO: building\nERROR: broken" in capsys.readouterr().err


def test_an_edit_that_changes_no_program_is_an_error(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = (source / "bazelw").read_text().replace("cat examples/training.py", "cat")
    (source / "bazelw").write_text(script)
    _commit(source)
    work = str(tmp_path / "work")
    arguments = ["--source", str(source), "--work", work, "--edits", "our_python"]
    assert program.main(arguments) == 1
    assert "the program is the same with another examples/training.py" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["cpp_patch", "python_patch"])
def test_a_patch_fits_strictly_and_says_one_word_more(
    name: str, source: Path, tmp_path: Path
) -> None:
    edit = EDITS[name]
    places = Places(source, tmp_path, source / "upstream", source / "patches/torch/v9")
    with editing(edit, places) as make:
        for word in ("one", "two"):
            make(word)
            series = load_series(places.series)
            shutil.copytree(places.source, patched := tmp_path / word)
            apply_series(series, patched)
            assert f"{edit.find} [{word}]: of this" in (patched / edit.path).read_text()
    assert load_series(places.series).patches == ()


def test_a_place_that_is_not_there_once_is_an_error(source: Path) -> None:
    edit = Edit("a", "a file", Way.WORKSPACE, "bazelw", "of nobody", None)
    places = Places(source, source, source, source)
    with (
        pytest.raises(EditError, match="has 'of nobody' 0 times, an edit needs it once"),
        editing(edit, places),
    ):
        pass


def test_cpu_of_what_has_ended_counts() -> None:
    before = usage.cpu(os.getpid())
    busy = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done"
    subprocess.run(["sh", "-c", f"sh -c '{busy}'; true"], check=True)
    assert usage.cpu(os.getpid()).since(before).children > 0.05


def test_memory_of_descendants_is_seen() -> None:
    code = "held = bytearray(96 << 20); input()"
    command = ["sh", "-c", f"'{sys.executable}' -c '{code}'; true"]
    with (
        usage.MemoryWatch(os.getpid(), interval=0.05) as memory,
        subprocess.Popen(command, stdin=subprocess.PIPE) as process,
    ):
        end = time.monotonic() + 300
        while memory.largest < 96 and time.monotonic() < end:
            time.sleep(0.05)
        process.communicate(b"\n")
    assert 96 <= memory.largest <= memory.together < 96 + 4096


def test_a_row_of_the_table() -> None:
    figure = Figure(
        "cpp", "a C++ file", "a tree", 60, 41.26, 35.0, 1.2, 2048.4, 1500, {"local": 3}, (41.26,)
    )
    line = "| a C++ file | a tree | 41.3 | 60 | 35.0 | 1.2 | 2048 | 1500 | local 3 |"
    assert report.row(figure) == line
    assert report.HEAD.splitlines()[0].count("|") == line.count("|")
