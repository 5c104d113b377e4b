# SPDX-License-Identifier: Apache-2.0
"""Find uncommitted edits before a command overwrites them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tools.importer.errors import EnvironmentProblem, UserError

# Keep the user's configuration and locale from changing git's output.
_CALM = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "0",
    "GIT_CONFIG_PARAMETERS": "",
    "LC_ALL": "C",
}
_NAMED = 5


def check_committed(workspace: Path, paths: Sequence[Path]) -> bool:
    """Raise UserError if git reports edits or new files under any of `paths`.

    Return False if the workspace is not in a git repository, in which case nothing is checked.
    """
    edited = uncommitted(workspace, paths)
    if edited is None:
        return False
    if edited:
        named = ", ".join(edited[:_NAMED])
        more = f" and {len(edited) - _NAMED} more" if len(edited) > _NAMED else ""
        raise UserError(
            f"{workspace}: not committed: {named}{more}. Commit or stash that first, or use --allow-dirty"
        )
    return True


def uncommitted(workspace: Path, paths: Sequence[Path]) -> list[str] | None:
    """Return the edited, deleted and new files under `paths`; None outside a git repository."""
    if not any((parent / ".git").exists() for parent in (workspace, *workspace.parents)):
        return None
    import git  # imported lazily: most commands do not use git

    tool = git.cmd.Git(workspace)
    tool.update_environment(**_CALM)
    try:
        # -z leaves names unquoted. --untracked-files=all lists the files in new directories.
        # --no-optional-locks avoids refreshing the index, which another git process may be using.
        # safe.directory lets git read a checkout that another user owns: the caller chose the
        # checkout, so it is trusted.
        out = tool.execute(
            [
                "git",
                "--no-optional-locks",
                "-c",
                f"safe.directory={workspace}",
                "-c",
                "core.fsmonitor=false",
                "-c",
                "status.renames=false",
                "status",
                "--porcelain=v1",
                "-z",
                "--untracked-files=all",
                "--",
                *(os.fspath(path) for path in paths),
            ],
            stdout_as_string=False,
        )
    except git.exc.GitCommandNotFound as error:
        raise EnvironmentProblem("git is not on PATH. Install it") from error
    except git.exc.GitCommandError as error:
        stderr = str(error.stderr).strip() or str(error)
        raise EnvironmentProblem(
            f"git status ended with {error.status} in {workspace}: {stderr.splitlines()[-1]}"
        ) from error
    assert isinstance(out, bytes)
    return sorted(os.fsdecode(row[3:]) for row in out.split(b"\0") if row)
