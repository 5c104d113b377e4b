# SPDX-License-Identifier: Apache-2.0
"""The kinds of error that end a command, and the exit status of each.

A message is one line: the problem, its location, the value found, the next step. Any other
exception is a bug in the importer and keeps its traceback.
"""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """A command's exit statuses, documented in tools/importer/README.md."""

    DONE = 0
    USER_ERROR = 1
    CONFLICT = 2
    ENVIRONMENT = 3
    NOTHING_TO_DO = 4


class UserError(ValueError):
    """An error that the user can fix: a wrong name, a bad patch, a dirty tree."""


class EnvironmentProblem(RuntimeError):
    """A failure of the environment: the network, the disk or a tool.

    The message names the tool, its exit status and its output.
    """
