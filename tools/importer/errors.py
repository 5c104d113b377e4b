# SPDX-License-Identifier: Apache-2.0
"""The errors that terminate a command, and their exit statuses.

A message is one line: the problem, its location, the actual value, and the next step. Any other
exception is a bug in the importer, and its traceback is shown.
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
    """An error in the environment: the network, the disk or an external tool.

    If a tool failed, the message contains its name, exit status and output.
    """
