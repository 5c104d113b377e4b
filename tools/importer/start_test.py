# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/import.py with a fake bazelw: output, arguments, exit status."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_START = Path(__file__).parents[1] / "import.py"

# A fake Bazel: it prints to both outputs, then writes a script that starts the program.
_BAZELW = """#!/bin/sh
echo "Bazel's words"
echo "Bazel's other words" >&2
pwd >"$0.cwd"
echo "$*" >"$0.options"
[ "$1" = run ] || exit 2
for option; do
  case $option in --script_path=*) script=${option#*=} ;; esac
done
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
    (root / "tools").mkdir(parents=True)
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
    # Bazel itself must be called inside the workspace.
    assert (workspace / "bazelw.cwd").read_text().strip() == str(workspace)


def test_later_starts_are_quiet(workspace: Path) -> None:
    built = workspace / "bazel-bin/tools/importer/import"
    built.parent.mkdir(parents=True)
    built.touch()
    done = start(workspace, workspace)
    assert "setting up" not in done.stderr
    assert "--noshow_progress" in (workspace / "bazelw.options").read_text()


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


def test_it_starts_through_a_link_and_by_its_name(workspace: Path, tmp_path: Path) -> None:
    link = tmp_path / "import.py"
    link.symlink_to(workspace / "tools/import.py")
    done = subprocess.run([link], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert f"in {workspace}: " in done.stdout
