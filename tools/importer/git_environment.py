# SPDX-License-Identifier: Apache-2.0
"""The caller's GIT_* variables: those that choose a repository, an index or an editor do not count.

A hook of git's, or a shell, may have set GIT_DIR or GIT_INDEX_FILE; a git that we start would then read
or write there. All are cleared but those that say how git reaches a network and where its own files are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

_KEPT = re.compile(
    # How a server is reached, and who asks there.
    r"GIT_(SSH|SSH_COMMAND|SSH_VARIANT|PROXY_COMMAND|ASKPASS|SSL_\w+|HTTP_\w+|CURL_\w+"
    # Settings of the person: only a git that uses the network reads them (see git_repo/client.py).
    r"|CONFIG_GLOBAL|CONFIG_SYSTEM|CONFIG_NOSYSTEM|CONFIG_COUNT|CONFIG_KEY_\d+|CONFIG_VALUE_\d+"
    r"|CONFIG_PARAMETERS"
    # Who makes a commit.
    r"|(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)"
    # Where git's own programs are, and what a search for a repository may cross.
    r"|EXEC_PATH|CEILING_DIRECTORIES|DISCOVERY_ACROSS_FILESYSTEM)"
)


@contextmanager
def without_callers_repository() -> Iterator[None]:
    """Run a command without the caller's choice of a repository; its variables are back afterwards."""
    gone = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("GIT_") and not _KEPT.fullmatch(name)
    }
    for name in gone:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(gone)
