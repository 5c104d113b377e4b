# SPDX-License-Identifier: Apache-2.0
"""skip: resume without the patch that needs manual resolution; the new series omits it."""

from __future__ import annotations

import argparse

from tools.importer.commands.context import Context
from tools.importer.commands.resuming import resume
from tools.importer.engine import Skip
from tools.importer.errors import ExitCode, UserError
from tools.importer.session import KNOWN_CALLS, require_unfinished

NAME = "skip"
HELP = "leave the stopped patch out of the new series, and go on"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments, because only the patch that needs manual resolution can be skipped."""


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    unfinished = require_unfinished(context.project.state)
    resumed = resume(context, unfinished)
    if unfinished.stop is None:
        raise UserError(
            "no patch waits for a decision: a command was killed. Run `import.py continue`"
        )
    if unfinished.stop.patch == KNOWN_CALLS:
        raise UserError(
            f"{KNOWN_CALLS} is not a patch and cannot be skipped: each call in it stays, with a reason, or "
            f"is patched. Edit .import/conflict/{KNOWN_CALLS}, then `import.py continue`"
        )
    return resumed.go_on({**unfinished.decisions, unfinished.stop.patch: Skip()})
