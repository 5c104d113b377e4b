# SPDX-License-Identifier: Apache-2.0
"""The kinds of error that a command may end with, and its exit status for each.

One line each: what, where, what was found, what to do next. Anything else that is raised is a bug of
ours and keeps its traceback.
"""

from __future__ import annotations

import enum


class ExitCode(enum.IntEnum):
    """What a command's exit status says. Documented in tools/importer/README.md."""

    DONE = 0
    USER_ERROR = 1
    CONFLICT = 2
    ENVIRONMENT = 3
    NOTHING_TO_DO = 4


class UserError(ValueError):
    """The person who called can put it right: a wrong name, a bad patch, a dirty tree."""


class EnvironmentProblem(RuntimeError):
    """The machine could not do it: network, disk, a tool. Names the tool, its status and its words."""
