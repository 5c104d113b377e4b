# SPDX-License-Identifier: Apache-2.0
"""`import.py rewrites`: are the generated patches what their rules make of the pinned tree?"""

from __future__ import annotations

import argparse
import json

from tools.importer.commands.context import Context
from tools.importer.engine import apply_to_snapshot
from tools.importer.errors import ExitCode, UserError
from tools.importer.origins import open_pin, resolve
from tools.importer.rewrites import Modules, check_guards, patch_files
from tools.importer.series import load_series
from tools.importer.snapshot import OverlaySnapshot
from tools.importer.writing import write_file

NAME = "rewrites"
HELP = "check the patches that rules make, and that nothing is left for which there is a rule"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="compare, change nothing (the default)")
    what.add_argument("--update", action="store_true", help="write the patches that differ")


def run(args: argparse.Namespace, context: Context) -> ExitCode:
    raise NotImplementedError
