# SPDX-License-Identifier: Apache-2.0
"""The commands of import.py, one module each: NAME, HELP, add_arguments and run. main.py lists them."""

from tools.importer.commands.context import Access, Command, Context

__all__ = ["Access", "Command", "Context"]
