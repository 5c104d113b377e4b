# SPDX-License-Identifier: Apache-2.0
"""Logger classes that keep torch's records in the log stream.

torch gives each of its registered loggers a handler on standard error and turns propagation off,
both initially and at every `torch._logging.set_logs`. Some of torch's modules do the same at
import. The classes here ignore these settings, but keep other handlers, such as those for files and
the user's own. They are assigned to the `__class__` of existing loggers, so torch needs no patch.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from absl import flags
from absl import logging as absl_logging

FLAGS = flags.FLAGS

# Loggers that torch's modules set to hard-coded levels at import or on first use. loggers_test.py
# checks that the list is complete.
LIBRARY_LOGGERS = (
    "Flight Recorder",
    "c10d-NullHandler-dcp_logger",
    "c10d-NullHandler-default",
    "sharding-spec-NullHandler",
    "strobelight_compile_time_profiler",
    "strobelight_function_profiler",
    "torch.distributed.checkpoint._dedup_tensors",
    "torch.distributed.checkpoint.logger",
    "torch.distributed.elastic.rendezvous.etcd_rendezvous",
    "torch.fx.passes.utils.matcher_utils",
    "torch.fx.passes.utils.source_matcher_utils",
    "torchelastic-events-console",
)

_TORCH = "torch"
_REGISTRY = "torch._logging._internal"


class OneStreamLogger(logging.Logger):
    """A logger that always propagates and has no console handler."""

    @property
    def propagate(self) -> bool:
        """Always True; assigning to it has no effect."""
        return True

    @propagate.setter
    def propagate(self, value: bool) -> None:
        del value

    def addHandler(self, hdlr: logging.Handler) -> None:  # noqa: N802
        """Add a handler unless it writes to the console, which only the log stream may do."""
        if not _is_console(hdlr):
            super().addHandler(hdlr)


class LibraryLogger(OneStreamLogger):
    """A logger that obeys the verbosity and ignores the level that its library hard-codes."""

    def setLevel(self, level: int | str) -> None:  # noqa: N802
        """Ignore `level`."""
        del level
        super().setLevel(logging.NOTSET)


class TorchLogger(OneStreamLogger):
    """The `torch` logger, which changes the class of torch's other loggers when torch sets it up.

    torch's default level is WARNING. If the user chose a verbosity, that replaces the default.
    Otherwise the default stays, because Abseil's own default is INFO, and at that level torch logs
    pages of text. Any other level comes from TORCH_LOGS or set_logs and is kept.
    """

    def setLevel(self, level: int | str) -> None:  # noqa: N802
        """Set `level`, unless it is torch's default (see the class docstring)."""
        is_default = level in (logging.NOTSET, logging.WARNING, "NOTSET", "WARNING")
        if is_default:
            level = logging.NOTSET if _verbosity_was_asked() else logging.WARNING
        super().setLevel(level)

    def addHandler(self, hdlr: logging.Handler) -> None:  # noqa: N802
        """Add a handler. torch calls this after it registers its loggers, so change their class."""
        adopt_registered()
        super().addHandler(hdlr)


def adopt_all() -> None:
    """Apply this module's classes to all of torch's loggers, even if torch is imported later."""
    _adopt(_TORCH, TorchLogger)
    for name in LIBRARY_LOGGERS:
        _adopt(name, LibraryLogger)
    adopt_registered()


def adopt_registered() -> None:
    """Change the class of torch's registered loggers, to which their descendants propagate."""
    registry: Any = getattr(sys.modules.get(_REGISTRY), "log_registry", None)
    for name in registry.get_log_qnames() if registry else ():
        if name != _TORCH:
            _adopt(name, OneStreamLogger)


def release_all() -> None:
    """Restore the class of all loggers. torch's settings apply again after the next set_logs."""
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, OneStreamLogger):
            logger.__class__ = logging.Logger  # type: ignore[assignment]
            logger.propagate = True


def _verbosity_was_asked() -> bool:
    """Return whether a flag set the verbosity, or code set it to ERROR or FATAL."""
    flag = FLAGS["verbosity"]
    return bool(flag.present) or flag.value < absl_logging.WARNING


def _adopt(name: str, adopter: type[OneStreamLogger]) -> None:
    """Change the class of the logger `name` to `adopter`, if it is a plain logging.Logger."""
    existing = logging.root.manager.loggerDict.get(name)
    logger = existing if isinstance(existing, logging.Logger) else _created(name)
    if type(logger) is not logging.Logger:
        return
    level = logger.level
    vars(logger).pop("propagate", None)  # the new class defines a property of this name
    logger.__class__ = adopter
    for handler in [handler for handler in logger.handlers if _is_console(handler)]:
        logger.removeHandler(handler)
    logger.setLevel(level)


def _created(name: str) -> logging.Logger:
    """Create the logger `name` as a logging.Logger, even if a different class is the default."""
    previous = logging.getLoggerClass()
    logging.setLoggerClass(logging.Logger)
    try:
        return logging.getLogger(name)
    finally:
        logging.setLoggerClass(previous)


def _is_console(handler: logging.Handler) -> bool:
    # From v2.15, torch has its own class of handlers for standard error.
    own: Any = getattr(sys.modules.get(_REGISTRY), "_StderrHandler", logging.StreamHandler)
    return type(handler) in (logging.StreamHandler, own) and getattr(handler, "stream", None) in (
        sys.stderr,
        sys.__stderr__,
        sys.stdout,
        sys.__stdout__,
    )
