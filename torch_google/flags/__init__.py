# SPDX-License-Identifier: Apache-2.0
"""Abseil flags for torch: one for each config entry and each environment variable that torch reads.

Call `define()` where the program defines its own flags; `app.run` then applies torch's flags.
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
