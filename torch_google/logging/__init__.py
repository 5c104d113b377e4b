# SPDX-License-Identifier: Apache-2.0
"""Abseil logging as the one log stream: torch's loggers, warnings and C++ messages with the program's own.

`setup()` once, in main. The rest is Abseil's own logging API under one name.
"""

from absl.logging import (
    DEBUG,
    ERROR,
    FATAL,
    INFO,
    WARNING,
    debug,
    error,
    exception,
    fatal,
    flush,
    get_verbosity,
    info,
    level_debug,
    level_error,
    level_info,
    level_warning,
    log,
    log_every_n,
    log_every_n_seconds,
    log_first_n,
    log_if,
    set_verbosity,
    vlog,
    vlog_is_on,
    warning,
)

from torch_google.logging.options import define_flags
from torch_google.logging.stream import setup, shutdown

__all__ = [
    "DEBUG",
    "ERROR",
    "FATAL",
    "INFO",
    "WARNING",
    "debug",
    "define_flags",
    "error",
    "exception",
    "fatal",
    "flush",
    "get_verbosity",
    "info",
    "level_debug",
    "level_error",
    "level_info",
    "level_warning",
    "log",
    "log_every_n",
    "log_every_n_seconds",
    "log_first_n",
    "log_if",
    "set_verbosity",
    "setup",
    "shutdown",
    "vlog",
    "vlog_is_on",
    "warning",
]
