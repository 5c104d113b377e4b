# SPDX-License-Identifier: Apache-2.0
"""The context in which commands run: the project, the report and the caller's directory."""

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
    """The context of a command. Relative paths in its arguments are relative to `cwd`."""

    project: Project
    report: Report
    dry_run: bool
    cwd: Path


class Access(enum.Enum):
    """How a command uses the workspace. A command module may set ACCESS; the default is WRITES."""

    READS = "reads"  # the command only reads, so others may run at the same time
    WRITES = "writes"  # the command runs alone, after main() has finished an interrupted write
    UNDOES = "undoes"  # the command runs alone, and itself rolls back an interrupted write


class Scope(enum.Enum):
    """The projects that a command uses. A command module may set SCOPE; the default is PROJECT."""

    PROJECT = "project"  # the project that --project names
    WORKSPACE = "workspace"  # all projects or none; `project` holds only the workspace
    STATE = "state"  # the unfinished command's project; `project` may have only the workspace


class Command(Protocol):
    """The interface of a command module in this package."""

    NAME: str
    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own arguments."""

    def run(self, args: argparse.Namespace, context: Context) -> ExitCode:
        """Run the command. Raises UserError or EnvironmentProblem if it fails."""
