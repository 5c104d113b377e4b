# SPDX-License-Identifier: Apache-2.0
"""Test the output, arguments and exit status of tools/import.py with a fake bazelw."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

_START = Path(__file__).parents[1] / "import.py"

# A fake bazelw. It prints to stdout and stderr, builds a program, and writes a script to start it.
_BAZELW = """#!/bin/sh
echo "Bazel's words"
echo "Bazel's other words" >&2
records=$(dirname "$0")/..
pwd >"$records/cwd"
echo "$*" >"$records/options"
[ "$1" = run ] || exit 2
for option; do
  case $option in --script_path=*) script=${option#*=} ;; esac
done
mkdir -p bazel-bin/tools/importer
echo "$$" >bazel-bin/tools/importer/import
echo >>"$records/builds"
cat >"$script" <<'END'
#!/bin/sh
echo "from $IMPORT_PY_CALLED_FROM in $BUILD_WORKSPACE_DIRECTORY: $*"
exit 4
END
chmod +x "$script"
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "a workspace"
    (root / "tools/importer").mkdir(parents=True)
    (root / "tools/importer/apply.py").touch()
    (root / "third_party/torch").mkdir(parents=True)
    (root / "third_party/torch/METADATA").touch()
    shutil.copy(_START, root / "tools/import.py")
    (root / "bazelw").write_text(_BAZELW)
    (root / "bazelw").chmod(0o755)
    return root


def start(workspace: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["python3", "-ESsB", workspace / "tools/import.py", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_importers_output_and_status_come_through_alone(
    workspace: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = start(workspace, elsewhere, "--json", "--tag", "v 2")
    assert done.returncode == 4
    assert done.stdout == f"from {elsewhere} in {workspace}: --json --tag v 2\n"
    assert done.stderr.splitlines() == [
        "import.py: setting up its interpreter and dependencies; the first start takes minutes",
        "Bazel's words",
        "Bazel's other words",
    ]
    # bazelw must run in the workspace, even if the importer was started elsewhere.
    assert (workspace.parent / "cwd").read_text().strip() == str(workspace)


def test_later_starts_are_quiet(workspace: Path) -> None:
    built = workspace / "bazel-bin/tools/importer/import"
    built.parent.mkdir(parents=True)
    built.touch()
    done = start(workspace, workspace)
    assert "setting up" not in done.stderr
    assert "--noshow_progress" in (workspace.parent / "options").read_text()


def test_a_build_that_fails_is_the_machines_problem(workspace: Path) -> None:
    (workspace / "bazelw").write_text("#!/bin/sh\necho no Bazel >&2\nexit 2\n")
    done = start(workspace, workspace)
    assert done.returncode == 3
    assert done.stdout == ""
    assert "no Bazel\n" in done.stderr
    assert "could not be built: bazelw exited with 2" in done.stderr


def test_no_bazelw_is_the_machines_problem(workspace: Path) -> None:
    os.unlink(workspace / "bazelw")
    done = start(workspace, workspace)
    assert done.returncode == 3
    assert "bazelw: No such file or directory. Restore the file from git" in done.stderr


def builds(workspace: Path) -> int:
    """Return how often bazelw was called."""
    return len((workspace.parent / "builds").read_text())


def stamp(workspace: Path) -> Path:
    return workspace / "bazel-bin/tools/importer/import.start"


def test_bazel_is_not_called_if_nothing_changed(workspace: Path, tmp_path: Path) -> None:
    first = start(workspace, workspace)
    (workspace / "third_party/torch/METADATA").write_text("name:")  # the importer writes it
    (workspace / "tools/__pycache__").mkdir()
    (workspace / "docs").mkdir()
    later = start(workspace, tmp_path, "status", "--json")
    assert later.returncode == first.returncode == 4
    assert later.stdout == f"from {tmp_path} in {workspace}: status --json\n"
    assert later.stderr == ""
    assert builds(workspace) == 1


def edit_file(workspace: Path) -> None:
    file = workspace / "tools/importer/apply.py"
    file.write_text("x = 1\n")


def edit_to_the_same_size_and_time(workspace: Path) -> None:
    file = workspace / "third_party/lock.json"
    info = file.stat()
    file.write_text("2")
    os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))


def add_file(workspace: Path) -> None:
    (workspace / "tools/importer/new.py").touch()


def remove_file(workspace: Path) -> None:
    (workspace / "tools/importer/apply.py").unlink()


def edit_root_file(workspace: Path) -> None:
    (workspace / ".bazelrc.user").write_text("build -c opt\n")


def build_again(workspace: Path) -> None:
    program = workspace / "bazel-bin/tools/importer/import"
    program.unlink()
    program.write_text("of other options")


def clean(workspace: Path) -> None:
    shutil.rmtree(workspace / "bazel-bin")


def let_others_write_the_stamp(workspace: Path) -> None:
    stamp(workspace).chmod(0o666)


def truncate_the_stamp(workspace: Path) -> None:
    os.truncate(stamp(workspace), stamp(workspace).stat().st_size // 4)


def replace_the_stamp_with_bytes(workspace: Path) -> None:
    stamp(workspace).write_bytes(b"\xff\0")


@pytest.mark.parametrize(
    "change",
    [
        edit_file,
        edit_to_the_same_size_and_time,
        add_file,
        remove_file,
        edit_root_file,
        build_again,
        clean,
        let_others_write_the_stamp,
        truncate_the_stamp,
        replace_the_stamp_with_bytes,
    ],
)
def test_bazel_is_called_after_any_change(workspace: Path, change: Callable[[Path], None]) -> None:
    (workspace / "third_party/lock.json").write_text("1")
    start(workspace, workspace)
    change(workspace)
    assert start(workspace, workspace).returncode == 4
    assert builds(workspace) == 2
    assert start(workspace, workspace).returncode == 4
    assert builds(workspace) == 2


def test_an_edit_during_the_build_is_built_next_time(workspace: Path) -> None:
    bazelw = workspace / "bazelw"
    bazelw.write_text(_BAZELW + "echo y=2 >>tools/importer/apply.py\n")
    start(workspace, workspace)
    bazelw.write_text(_BAZELW)
    start(workspace, workspace)
    start(workspace, workspace)
    assert builds(workspace) == 2


def test_a_folder_that_cannot_be_read_is_bazels_to_report(workspace: Path) -> None:
    shutil.rmtree(workspace / "third_party")
    for number in (1, 2):
        assert start(workspace, workspace).returncode == 4
        assert builds(workspace) == number
    assert not stamp(workspace).exists()


def test_it_starts_through_a_link_and_by_its_name(workspace: Path, tmp_path: Path) -> None:
    link = tmp_path / "import.py"
    link.symlink_to(workspace / "tools/import.py")
    done = subprocess.run([link], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert f"in {workspace}: " in done.stdout
