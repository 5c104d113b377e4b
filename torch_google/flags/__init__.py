# SPDX-License-Identifier: Apache-2.0
"""Abseil flags for torch: each entry of its config modules and each of its environment names is a flag.

`define()` beside the program's own flags; `app.run` does the rest.
"""

from torch_google.flags.application import apply, define
from torch_google.flags.command_line import parse
from torch_google.flags.registry import Option, Variable, options, variables
from torch_google.flags.show import Setting, settings

__all__ = [
    "Option",
    "Setting",
    "Variable",
    "apply",
    "define",
    "options",
    "parse",
    "settings",
    "variables",
]
