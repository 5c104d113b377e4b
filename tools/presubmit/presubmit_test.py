# SPDX-License-Identifier: Apache-2.0
import io
import pathlib
import re
import subprocess

import pytest

from tools.presubmit import checks, finding, presubmit, report, tree

_HEADER = "# SPDX-License-Identifier: Apache-2.0\n"


def _git(root: pathlib.Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: pathlib.Path) -> pathlib.Path:
    _git(tmp_path, "init", "--quiet")
    (tmp_path / "README.md").write_text("A tree.\n")
    return tmp_path


def _main(repository: pathlib.Path, *arguments: str) -> int:
    return presubmit.main(["--root", str(repository), *arguments])


@pytest.mark.full
def test_clean_tree(repository: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "a.py").write_text(f'{_HEADER}"""A module."""\n')
    assert _main(repository, "--only", "licence", "ruff", "mypy") == presubmit.CLEAN
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\[ 1/3\] licence +\d+\.\d s  ok", lines[0])
    assert lines[-1] == "presubmit: 2 files, 3 checks, 0 findings, 0 could not run"


def test_findings_are_listed_last(
    repository: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "a.py").write_text('"""A module."""\n')
    assert _main(repository, "--only", "licence", "size") == presubmit.FINDINGS
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("1 findings")
    assert lines[-2] == (
        "a.py:1: no licence line; make this line '# SPDX-License-Identifier: Apache-2.0'"
    )


def test_a_hook_of_another_repository_chooses_no_files(
    repository: pathlib.Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = tmp_path_factory.mktemp("other")
    _git(other, "init", "--quiet")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    assert tree.Tree.of_git(repository).paths == ("README.md",)


def test_fix(repository: pathlib.Path) -> None:
    (repository / "a.py").write_text(f'{_HEADER}"""A module."""\n\nX = [ 1 ]\n')
    assert _main(repository, "--only", "ruff") == presubmit.FINDINGS
    assert _main(repository, "--only", "ruff", "--fix") == presubmit.CLEAN


def test_unknown_check_is_refused(
    repository: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        _main(repository, "--only", "spelling")
    assert "invalid choice: 'spelling'" in capsys.readouterr().err


def test_outside_a_repository(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(tmp_path / "absent") == presubmit.ENVIRONMENT
    assert "cannot run git" in capsys.readouterr().out


def test_a_check_that_cannot_run_stops_no_other(tmp_path: pathlib.Path) -> None:
    def unable(_: tree.Tree) -> list[finding.Finding]:
        raise finding.EnvironmentProblem("ruff is not here; fetch it")

    def able(_: tree.Tree) -> list[finding.Finding]:
        return [finding.Finding(path="a", line=3, what="odd", next_step="even it")]

    broken = checks.Check(name="broken", about="", find=unable)
    working = checks.Check(name="working", about="", find=able)
    out = io.StringIO()
    files = tree.Tree(tmp_path, [])
    assert presubmit.run([broken], files, report.Report(out, total=1)) == presubmit.ENVIRONMENT
    assert "presubmit broken: ruff is not here; fetch it" in out.getvalue().splitlines()
    shown = report.Report(out, total=2)
    assert presubmit.run([broken, working], files, shown) == presubmit.FINDINGS
    assert "a:3: odd; even it" in out.getvalue().splitlines()


def test_terminal_sees_the_running_check() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    painted = report.Report(out, total=1)
    with painted.running("slow") as row:
        while "..." not in out.getvalue():
            pass
        row.outcome = "ok"
    assert out.getvalue().startswith("\r[ 1/1] slow")
    assert out.getvalue().endswith("ok\n")


def test_tree_lists_what_git_would_commit(repository: pathlib.Path) -> None:
    for name in ("tracked", "untracked", "ignored", "deleted"):
        (repository / name).write_text(name)
    (repository / ".gitignore").write_text("ignored\n")
    (repository / "link").symlink_to("tracked")
    _git(repository, "add", "tracked", "deleted", "link")
    (repository / "deleted").unlink()
    files = tree.Tree.of_git(repository)
    assert files.paths == (".gitignore", "README.md", "tracked", "untracked")


def test_check_names_are_unique() -> None:
    names = [check.name for check in checks.CHECKS]
    assert len(names) == len(set(names))
