# SPDX-License-Identifier: Apache-2.0
"""The commands of import.py. Each module defines NAME, HELP, add_arguments and run; see main.py."""

from tools.importer.commands.context import Access, Command, Context, Scope

__all__ = ["Access", "Command", "Context", "Scope"]
