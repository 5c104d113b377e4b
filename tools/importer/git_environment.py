# SPDX-License-Identifier: Apache-2.0
"""Clear the caller's GIT_* variables that select a repository, an index or an editor.

A git hook or a shell may have set GIT_DIR or GIT_INDEX_FILE, and each git process that we start
would use that repository. Only the variables for network access, authorship and git's own files are
kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

_KEPT = re.compile(
    # Network access and prompts for credentials.
    r"GIT_(SSH|SSH_COMMAND|SSH_VARIANT|PROXY_COMMAND|ASKPASS|SSL_\w+|HTTP_\w+|CURL_\w+"
    # The user's settings. Only git commands that use the network read them (git_repo/client.py).
    r"|CONFIG_GLOBAL|CONFIG_SYSTEM|CONFIG_NOSYSTEM|CONFIG_COUNT|CONFIG_KEY_\d+|CONFIG_VALUE_\d+"
    r"|CONFIG_PARAMETERS"
    # Author and committer of a commit.
    r"|(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)"
    # The directory of git's own programs, and limits on the search for a repository.
    r"|EXEC_PATH|CEILING_DIRECTORIES|DISCOVERY_ACROSS_FILESYSTEM)"
)


@contextmanager
def without_callers_repository() -> Iterator[None]:
    """Hide the caller's repository from git within this context."""
    hidden = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("GIT_") and not _KEPT.fullmatch(name)
    }
    for name in hidden:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(hidden)
