# SPDX-License-Identifier: Apache-2.0
"""Define torch's flags, and apply them to torch once they are parsed."""

from __future__ import annotations

import os
import sys
from typing import Any

from absl import app, flags, logging

from torch_google.flags import values
from torch_google.flags.definitions import KNOBS, SHOW, define_flags
from torch_google.flags.kinds import kind
from torch_google.flags.registry import options, variables
from torch_google.flags.show import show

_LOGS = "TORCH_LOGS"


def define(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Define a flag for each torch option and environment variable; `app.run` applies them.

    Call this before flags are parsed. It does not import torch, and it is idempotent. A program
    without `app.run` must call `apply` itself. Raises flags.DuplicateFlagError if the program
    already has a flag of the same name.
    """
    if KNOBS in flag_values:
        return
    define_flags(flag_values)
    app.call_after_init(lambda: apply(flag_values))


def apply(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Apply the flags to this process and its children, preferably before torch is imported.

    If torch is already imported, config options and `--torch_logs` still take effect. torch may
    already have read other environment variables; one warning lists their flags. If
    `--torch_flags_show` is given, print the settings and exit with status 0. Raises ValueError if
    the program assigned a value of the wrong type to a flag.
    """
    texts = {
        option.flag: kind(option.type).text(flag_values[option.flag].value)
        for option in options()
        if not option.left_out and _is_given(flag_values, option.flag)
    }
    if _is_given(flag_values, KNOBS):
        texts[KNOBS] = flag_values[KNOBS].value
    environment = {
        variable.name: _as_variable(flag_values[variable.flag].value)
        for variable in variables()
        if variable.flag and _is_given(flag_values, variable.flag)
    }
    values.give(texts)
    os.environ.update(environment)
    if "torch" in sys.modules:
        values.settle_now()
        _tell_late(environment, set(texts))
    if which := flag_values[SHOW].value:
        show(sys.stdout, which == "all", set(environment))
        sys.stdout.flush()
        sys.exit(0)


def _is_given(flag_values: flags.FlagValues, name: str) -> bool:
    return not flag_values[name].using_default_value


def _as_variable(value: Any) -> str:
    """Format `value` for an environment variable; torch expects 1 or 0 for a bool."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def _tell_late(environment: dict[str, str], settled: set[str]) -> None:
    """Make torch reread TORCH_LOGS, and warn about variables that torch may already have read."""
    if _LOGS in environment:
        from torch._logging import _internal

        _internal._init_logs()  # torch._logging.set_logs is a no-op if TORCH_LOGS is set
    late = [name for name in environment if name != _LOGS and name.lower() not in settled]
    if late:
        logging.warning(
            "torch was imported before these flags were parsed, and may have read the environment: %s. "
            "Import it in main(), or set the variable",
            ", ".join(f"--{name.lower()}" for name in late),
        )
