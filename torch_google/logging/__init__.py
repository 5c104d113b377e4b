# SPDX-License-Identifier: Apache-2.0
"""One Abseil log stream for the program, torch's loggers, warnings and C++ messages.

Call `setup()` once, in main. Most other names here are Abseil's logging API.
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
