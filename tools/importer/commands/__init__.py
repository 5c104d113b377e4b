# SPDX-License-Identifier: Apache-2.0
"""The commands of import.py: each module defines NAME, HELP, add_arguments and run. See main.py."""

from tools.importer.commands.context import Access, Command, Context, Scope

__all__ = ["Access", "Command", "Context", "Scope"]
