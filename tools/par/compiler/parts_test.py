# SPDX-License-Identifier: Apache-2.0
"""Test that programs cut into parts run like whole ones, and that an edit changes only one part."""

from __future__ import annotations

import mmap
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from tools.par.compiler import parts
from tools.par.compiler.link import link

_WORKSPACE = Path(__file__).parents[3]
_LAUNCHER = _WORKSPACE / "tools/par/launcher/launcher"
_BASE = [_WORKSPACE / f"tools/par/runtime/{name}.parlib" for name in ("stdlib", "runtime")]
_SHOW = """\
import multiprocessing, os, sys
from app import more

def child(n):
    return n + 1

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(child, [41]), more.VALUE, __file__.removeprefix(os.getcwd()), sys.argv[1:])
"""


def _linked(directory: Path, value: int, *, doors: bool = True) -> Path:
    source = directory / "src"
    source.mkdir(parents=True)
    (source / "main.py").write_text(_SHOW)
    (source / "more.py").write_text(f"VALUE = {value}\n")
    link(
        directory / "program.par",
        launcher=_LAUNCHER,
        bundles=_BASE,
        files=[(f"app/{name}.py", str(source / f"{name}.py")) for name in ("main", "more")],
        settings={"main": "app.main", "fast_exit": True, "startup_gc": False},
        info={},
        doors=doors,
    )
    return directory / "program.par"


def _cut(par: Path) -> list[parts.Part]:
    with par.open("rb") as stream:
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    return parts.cut(memoryview(mapped), par)


def _write(pieces: list[parts.Part], directory: Path) -> Path:
    (directory / "rest").mkdir(parents=True)
    program = directory / "program.par"
    program.write_bytes(pieces[0].data)
    program.chmod(0o755)
    rest = [(piece, f"rest/{number}") for number, piece in enumerate(pieces[1:])]
    for piece, file in rest:
        (directory / file).write_bytes(piece.data)
    listed = parts.list_of_parts(pieces[0], rest)
    program.with_name(program.name + parts.LIST_SUFFIX).write_bytes(listed)
    return program


def _run(program: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, "a"],
        env={"PAR_CACHE_DIR": str(program.parent / "cache"), "PATH": os.environ["PATH"], **more},
        cwd=program.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("parts")
    return _write(_cut(_linked(directory / "linked", 1)), directory / "cut")


def test_the_parts_run_like_the_file(program: Path) -> None:
    done = _run(program, PAR_VERIFY="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "[42] 1 /program.par/app/main.py ['a']\n"


def test_parts_are_all_bytes_but_the_directory(tmp_path: Path) -> None:
    par = _linked(tmp_path, 1)
    pieces = _cut(par)
    names = ["launcher", "stdlib", "runtime", "libraries", "program"]
    assert [piece.name for piece in pieces] == names
    joined = b"".join(piece.data for piece in pieces)[:-129]
    whole = par.read_bytes()
    changed = [i for i in range(0, len(joined), 16) if whole[i : i + 16] != joined[i : i + 16]]
    assert len(changed) <= 3  # only the launcher's record differs
    with zipfile.ZipFile(par) as archive:
        assert len(joined) == archive.start_dir


def test_an_edit_changes_only_the_program(tmp_path: Path) -> None:
    before, after = (_cut(_linked(tmp_path / str(value), value)) for value in (1, 22222))
    assert [piece.data == after[i].data for i, piece in enumerate(before)] == [True] * 4 + [False]


def test_doors_stay_closed(tmp_path: Path) -> None:
    program = _write(_cut(_linked(tmp_path / "linked", 1, doors=False)), tmp_path / "cut")
    assert _run(program, PAR_HELP="1").stdout.startswith("[42] 1")


def test_damage_is_one_line(program: Path, tmp_path: Path) -> None:
    listed = program.with_name(program.name + parts.LIST_SUFFIX)
    whole = listed.read_bytes()
    lines = whole.splitlines(keepends=True)
    damaged = [
        b"",
        b"PAR parts 0\n",
        whole[:-1],
        lines[0],
        b"".join(lines[:-1]),
        whole.replace(b"rest/1", b"rest/7"),
        whole.replace(b"rest/1", b"rest/0"),
        whole.replace(b"rest/1", b"r" * 5000),
        whole + lines[1],
        b"PAR parts ffffffffffffffff\n" + b"".join(lines[1:]),
        b"PAR parts 0000000000000001\n" + b"".join(lines[1:]),
        lines[0] + lines[2] + lines[1] + b"".join(lines[3:]),
    ]
    try:
        for text in damaged:
            listed.write_bytes(text)
            done = _run(program)
            assert (done.returncode, done.stdout) == (1, ""), text
            assert done.stderr.count("\n") == 1, done.stderr
            assert "build or copy the file again" in done.stderr
        listed.unlink()
        done = _run(program)
        assert "cannot read the list of its parts: No such file" in done.stderr
        assert done.stderr.count("\n") == 1
    finally:
        listed.write_bytes(whole)


def test_a_changed_part_is_found(program: Path) -> None:
    part = program.parent / "rest/1"
    whole = part.read_bytes()
    try:
        part.write_bytes(whole[:-1] + b"x")
        done = _run(program, PAR_VERIFY="1")
        assert (done.returncode, done.stdout) == (1, "")
        assert "PAR_VERIFY: the archive" in done.stderr
    finally:
        part.write_bytes(whole)


def test_a_file_that_is_no_par_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "no.par"
    file.write_bytes(b"x" * 5000)
    with pytest.raises(ValueError, match=r"no\.par: not a finished archive"):
        parts.cut(memoryview(file.read_bytes()), file)
