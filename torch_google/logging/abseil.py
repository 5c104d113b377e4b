# SPDX-License-Identifier: Apache-2.0
"""Abseil's C++ log, where it is linked into the interpreter: the same settings and the same stream.

With --config=static, torch's C++ code logs through Abseil. It is one log then, so it is set once: by the
flags and functions of Abseil's Python half, which are followed here. `_absl` is the C++ half's door
(third_party/abseil); where there is none, nothing here does anything.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from absl import flags
from absl import logging as absl_logging

FLAGS = flags.FLAGS

_MODULE = "_absl"
# What torch reads its level from when it is imported, and the flag that it keeps it in afterwards.
LEVEL_VARIABLE = "TORCH_CPP_LOG_LEVEL"
_LEVEL_FLAG = "c10_caffe2_log_level"
_MODULE_LEVEL = re.compile(r"[^=,]+=-?\d+")
_SEVERITIES = ("INFO", "WARNING", "ERROR", "FATAL")

_following = False
_asked = ""  # the level that the user has put into the environment, if any
_told = ""  # the level that was put there here
_watching = False


def is_linked() -> bool:
    """Whether this interpreter has Abseil's C++ library inside."""
    return _MODULE in sys.builtin_module_names


def define_flags() -> None:
    """Define `--minloglevel` and `--vmodule`, which Abseil has in C++ and not in Python."""
    if not is_linked() or "minloglevel" in FLAGS:
        return
    flags.DEFINE_integer(
        "minloglevel",
        None,
        "Log nothing below this severity: 0 is INFO, 1 WARNING, 2 ERROR, 3 FATAL. The same as a "
        "--verbosity of its negative; where both are given, the quieter holds.",
        lower_bound=0,
        upper_bound=3,
    )
    flags.DEFINE_string(
        "vmodule",
        "",
        "VLOG levels of single C++ files: `socket=2,Proc*=1`, by their names without directory and "
        "extension; * and ? match. Python's loggers have --logger_levels.",
    )
    flags.register_validator(
        "vmodule", _is_module_levels, message="give NAME=LEVEL, several with commas between"
    )


def severity_name(verbosity: int) -> str:
    """Return the least severity that a verbosity of Abseil shows, as C++ calls it."""
    return _SEVERITIES[min(max(-verbosity, 0), 3)]


def follow() -> None:
    """Set C++'s levels as Python's, now and whenever these change, until `unfollow`.

    A level that the user has put into TORCH_CPP_LOG_LEVEL stays.
    """
    global _asked, _following, _watching
    if not is_linked():
        return
    _following = True
    if not _watching:
        _watching = True
        # Abseil calls it at every change, whoever makes it.
        flags.register_validator("verbosity", _changed)
    _limit(absl_logging.get_verbosity())
    verbosity = absl_logging.get_verbosity()
    # A parent of this process has put there what it follows itself.
    found = os.environ.get(LEVEL_VARIABLE, "")
    _asked = "" if found in (_told, severity_name(verbosity)) else found
    _set_levels(verbosity)
    for pattern, level in reversed(_module_levels()):
        _native().set_module_level(pattern, level)


def unfollow() -> None:
    """Leave C++'s levels as they are now: what it says at the end of the process has them too."""
    global _following
    _following = False


def tag_messages(on: bool) -> None:
    """Have C++ write messages in the form that the relay of `native.py` reads, or in Abseil's own."""
    if is_linked():
        _native().tag_messages(on)


def _native() -> Any:
    import _absl

    return _absl


def _changed(verbosity: int) -> bool:
    if _following and not _limit(verbosity):
        _set_levels(verbosity)
    return True


def _limit(verbosity: int) -> bool:
    """Lower the verbosity to what --minloglevel allows; return whether it was higher."""
    least = FLAGS["minloglevel"].value if "minloglevel" in FLAGS else None
    if least is None or verbosity <= -least:
        return False
    FLAGS.verbosity = -least
    return True


def _set_levels(verbosity: int) -> None:
    global _told
    name = severity_name(verbosity)
    if _asked:
        name = _severity_of(_asked)
    else:
        os.environ[LEVEL_VARIABLE] = _told = name
    severity = _SEVERITIES.index(name)
    native = _native()
    native.set_log_levels(severity, max(verbosity, 0))
    if _LEVEL_FLAG in native.flags():  # torch is imported already
        native.set_flag(_LEVEL_FLAG, str(severity))


def _severity_of(text: str) -> str:
    """Return what torch makes of its variable: a name or a number; it says itself when it is neither."""
    name = text.upper()
    if name in ("0", "1", "2", "3"):
        return _SEVERITIES[int(name)]
    return name if name in _SEVERITIES else "WARNING"


def _module_levels() -> list[tuple[str, int]]:
    text = FLAGS["vmodule"].value if "vmodule" in FLAGS else ""
    pairs = (entry.split("=") for entry in text.split(",") if entry)
    return [(pattern, int(level)) for pattern, level in pairs]


def _is_module_levels(text: str) -> bool:
    return all(_MODULE_LEVEL.fullmatch(entry) for entry in text.split(",") if entry)
