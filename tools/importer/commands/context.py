# SPDX-License-Identifier: Apache-2.0
"""What every command is given: the project, where to report, and how the caller called."""

from __future__ import annotations

import argparse
import enum
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tools.importer.errors import ExitCode
from tools.importer.project import Project
from tools.importer.report import Report


@dataclass(frozen=True)
class Context:
    """`cwd` is the caller's directory: relative paths on the command line start there."""

    project: Project
    report: Report
    dry_run: bool
    cwd: Path


class Access(enum.Enum):
    """What a command does to the workspace: the optional ACCESS of its module, WRITES without one."""

    READS = "reads"  # others may run beside it
    WRITES = "writes"  # alone, on a tree in which nothing is half published
    UNDOES = "undoes"  # alone; what is half published is its business


class Command(Protocol):
    """The shape of a module in this package that is a command."""

    NAME: str
    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's own arguments."""

    def run(self, args: argparse.Namespace, context: Context) -> ExitCode:
        """Do it. Raises UserError or EnvironmentProblem."""
