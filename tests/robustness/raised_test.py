# SPDX-License-Identifier: Apache-2.0
"""A PAR with elevated privileges (setuid, setgid, capabilities) never runs its caller's code."""

from __future__ import annotations

import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator

import pytest

from tests.robustness import subject

_CALLER = 65534
# A struct vfs_cap_data: revision 2, effective, with CAP_NET_BIND_SERVICE permitted.
_ONE_CAPABILITY = struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0)


@pytest.fixture
def folder() -> Iterator[pathlib.Path]:
    """A directory that other users can enter, on a filesystem that honors setuid bits."""
    if os.geteuid() != 0:
        pytest.skip("only root can create a file that runs with root's rights")
    if "NoNewPrivs:\t1" in pathlib.Path("/proc/self/status").read_text():
        pytest.skip("this process may not gain rights (no_new_privs)")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        if os.statvfs(name).f_flag & os.ST_NOSUID:
            pytest.skip("/tmp is mounted nosuid")
        os.chmod(name, 0o755)
        yield pathlib.Path(name)


@pytest.fixture(params=["setuid", "setgid", "capability"])
def raised(request: pytest.FixtureRequest, folder: pathlib.Path) -> pathlib.Path:
    par = pathlib.Path(shutil.copy(subject.PROBE, folder / "raised.par"))
    modes = {"setuid": 0o4755, "setgid": 0o2755, "capability": 0o755}
    par.chmod(modes[request.param])
    if request.param == "capability":
        try:
            os.setxattr(par, "security.capability", _ONE_CAPABILITY)
        except OSError as error:
            pytest.skip(f"no file capabilities here: {error.strerror}")
    return par


def _call(
    program: str | os.PathLike[str],
    *arguments: str,
    name: str | None = None,
    environment: dict[str, str] | None = None,
) -> subject.Outcome:
    """Start `program` as an unprivileged user, with `name` as argv[0] if given."""
    return subject.Outcome(
        subprocess.run(
            [name or os.fspath(program), *arguments],
            executable=program,
            env=environment or {},
            user=_CALLER,
            group=_CALLER,
            extra_groups=[],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    )


def _owned_by_caller(directory: pathlib.Path) -> pathlib.Path:
    directory.mkdir(mode=0o700)
    os.chown(directory, _CALLER, _CALLER)
    return directory


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PAR_DEBUG", "1"),
        ("PAR_HELP", "1"),
        ("PAR_INFO", "1"),
        ("PAR_INTERPRETER", "1"),
        ("PAR_LIST", "1"),
        ("PAR_MAIN", "platform"),
        ("PAR_TRACE_IMPORTS", "1"),
        ("PYTHONWARNINGS", "error"),
        ("PYTHONHASHSEED", "0"),
    ],
)
def test_a_variable_is_ignored(raised: pathlib.Path, variable: str, value: str) -> None:
    _call(raised, environment={variable: value}).assert_ran()


@pytest.mark.parametrize(
    "variable", ["PAR_CACHE_DIR", "XDG_CACHE_HOME", "HOME", "TMPDIR", "TEST_TMPDIR"]
)
def test_no_directory_holds_its_libraries(
    folder: pathlib.Path, raised: pathlib.Path, variable: str
) -> None:
    """The PAR must not unpack libraries to a directory that its caller owns.

    With only setgid or capabilities, the process has its caller's user ID, so the owner of a
    directory proves nothing.
    """
    directory = _owned_by_caller(folder / "theirs")
    outcome = _call(raised, environment={variable: str(directory)})
    outcome.assert_ran()
    assert outcome.seen["library"].startswith("/proc/self/fd/")
    assert list(directory.iterdir()) == []


def test_no_name_makes_it_an_interpreter(folder: pathlib.Path, raised: pathlib.Path) -> None:
    link = _owned_by_caller(folder / "links") / "python3"
    link.symlink_to(raised)
    code = ("-c", "print('code of the caller')")
    _call(link, *code).assert_refused(str(link), "raised rights")
    _call(raised, *code, name="python3").assert_refused("python3", "raised rights")
    script = folder / "script"
    script.write_text(f"#!{raised} --par-interpreter\nprint('code of the caller')\n")
    script.chmod(0o755)
    _call(script).assert_refused("raised rights")


def test_arguments_belong_to_the_program(raised: pathlib.Path) -> None:
    outcome = _call(raised, "--par-interpreter", "x")
    outcome.assert_ran()
    assert outcome.seen["argv"] == ["--par-interpreter", "x"]


def test_it_starts_no_process_by_its_own_name(raised: pathlib.Path) -> None:
    outcome = _call(raised, "spawn")
    assert outcome.status > 0
    assert "hello" not in outcome.out


def test_a_program_in_parts_is_refused(raised: pathlib.Path) -> None:
    """A multi-part PAR loads files from its own directory.

    A caller can choose that directory by creating a hard link to the PAR.
    """
    mode, data = raised.stat().st_mode, bytearray(raised.read_bytes())
    flags = data.index(b"PAR launcher v1\0") + 24
    data[flags] |= 2  # the flag PAR_SEAL_IN_PARTS
    raised.write_bytes(data)
    raised.chmod(mode)
    if mode & 0o6000 == 0:
        os.setxattr(raised, "security.capability", _ONE_CAPABILITY)
    _call(raised).assert_refused("a program in parts", "clear the setuid bit")
