# SPDX-License-Identifier: Apache-2.0
"""Loggers that keep their records in the one stream, whatever their library does to them.

torch gives each of its registered loggers a handler of its own on standard error, cuts it off from the
root, and does so again at every `torch._logging.set_logs`; some modules do the same when they are
imported. Python lets us say of which class a logger is, so nothing of that needs a patch: these classes
refuse the cut and such handlers. Handlers of other kinds (files, a user's own) are left alone.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from absl import flags
from absl import logging as absl_logging

FLAGS = flags.FLAGS

# What torch's modules make for themselves when they are imported or first used, with levels that
# nobody asked for. loggers_test.py finds the list again in torch itself.
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
    """A logger that always hands its records to its parents, and has no console of its own."""

    @property
    def propagate(self) -> bool:
        """Always true; setting it changes nothing."""
        return True

    @propagate.setter
    def propagate(self, value: bool) -> None:
        del value

    def addHandler(self, hdlr: logging.Handler) -> None:  # noqa: N802
        """Add a handler, unless it writes to the console: the stream does that already."""
        if not _is_console(hdlr):
            super().addHandler(hdlr)


class LibraryLogger(OneStreamLogger):
    """A logger whose library fixes its level. It has none here: the program's verbosity holds."""

    def setLevel(self, level: int | str) -> None:  # noqa: N802
        """Check `level` and forget it."""
        del level
        super().setLevel(logging.NOTSET)


class TorchLogger(OneStreamLogger):
    """The logger `torch`, above all of torch's. It adopts the others when torch sets them up.

    WARNING is what torch sets where nobody asked for a level. Where somebody asked for a verbosity of
    the program, that is no level here, and the verbosity holds. Without, torch keeps its own: absl's
    apps begin with INFO, which torch fills with pages. Any other is what TORCH_LOGS or set_logs asked for.
    """

    def setLevel(self, level: int | str) -> None:  # noqa: N802
        """Take a level that somebody asked for."""
        nobody_asked = level in (logging.NOTSET, logging.WARNING, "NOTSET", "WARNING")
        if nobody_asked:
            level = logging.NOTSET if _verbosity_was_asked() else logging.WARNING
        super().setLevel(level)

    def addHandler(self, hdlr: logging.Handler) -> None:  # noqa: N802
        """Note that torch sets its loggers up: it gives each of them a handler, this one too."""
        adopt_registered()
        super().addHandler(hdlr)


def adopt_all() -> None:
    """Adopt the loggers that torch has or will have. May be called before torch is imported."""
    _adopt(_TORCH, TorchLogger)
    for name in LIBRARY_LOGGERS:
        _adopt(name, LibraryLogger)
    adopt_registered()


def adopt_registered() -> None:
    """Adopt the loggers in torch's own registry; those below them reach the stream through them."""
    registry: Any = getattr(sys.modules.get(_REGISTRY), "log_registry", None)
    for name in registry.get_log_qnames() if registry else ():
        if name != _TORCH:
            _adopt(name, OneStreamLogger)


def release_all() -> None:
    """Make every adopted logger a plain one again. What torch had set is set again by set_logs."""
    for logger in logging.root.manager.loggerDict.values():
        if isinstance(logger, OneStreamLogger):
            logger.__class__ = logging.Logger  # type: ignore[assignment]
            logger.propagate = True


def _verbosity_was_asked() -> bool:
    """Whether the verbosity is on the command line, or below what torch would show by itself."""
    flag = FLAGS["verbosity"]
    return bool(flag.present) or flag.value < absl_logging.WARNING


def _adopt(name: str, adopter: type[OneStreamLogger]) -> None:
    """Make the logger `name` one of ours. A logger of another class than Python's stays as it is."""
    existing = logging.root.manager.loggerDict.get(name)
    logger = existing if isinstance(existing, logging.Logger) else _created(name)
    if type(logger) is not logging.Logger:
        return
    level = logger.level
    # An attribute of the instance would hide the property.
    vars(logger).pop("propagate", None)
    logger.__class__ = adopter
    for handler in [handler for handler in logger.handlers if _is_console(handler)]:
        logger.removeHandler(handler)
    logger.setLevel(level)


def _created(name: str) -> logging.Logger:
    """Return the logger `name`, made of Python's own class whatever class was set for new ones."""
    previous = logging.getLoggerClass()
    logging.setLoggerClass(logging.Logger)
    try:
        return logging.getLogger(name)
    finally:
        logging.setLoggerClass(previous)


def _is_console(handler: logging.Handler) -> bool:
    return type(handler) is logging.StreamHandler and handler.stream in (
        sys.stderr,
        sys.__stderr__,
        sys.stdout,
        sys.__stdout__,
    )
