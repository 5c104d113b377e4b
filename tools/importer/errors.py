# SPDX-License-Identifier: Apache-2.0
"""The errors that end a command, and their exit statuses.

A message is one line: the problem, its location, the value found, and the next step. Any other
exception is a bug in the importer and keeps its traceback.
"""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """The exit statuses of a command, as documented in tools/importer/README.md."""

    DONE = 0
    USER_ERROR = 1
    CONFLICT = 2
    ENVIRONMENT = 3
    NOTHING_TO_DO = 4


class UserError(ValueError):
    """An error that the user can fix: a wrong name, a bad patch, or a dirty tree."""


class EnvironmentProblem(RuntimeError):
    """A failure of the environment: the network, the disk or a tool.

    If a tool failed, the message names it, its exit status and its output.
    """
