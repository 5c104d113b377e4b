# SPDX-License-Identifier: Apache-2.0
"""Keep the log levels of Abseil's C++ library in sync with Python's, if it is linked in.

With --config=static, torch's C++ code logs through Abseil. Users set levels only in Python, with
absl-py's flags and functions, and this module applies them in C++, using the extension module
`_absl` (third_party/abseil). Without that module, all of this module's functions are no-ops.
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
# torch reads its C++ log level from this variable at import and copies it into _LEVEL_FLAG.
LEVEL_VARIABLE = "TORCH_CPP_LOG_LEVEL"
_LEVEL_FLAG = "c10_caffe2_log_level"
_MODULE_LEVEL = re.compile(r"[^=,]+=-?\d+")
_SEVERITIES = ("INFO", "WARNING", "ERROR", "FATAL")

_following = False
_user_level = ""  # the level that the user set in the environment, if any
_own_level = ""  # the level that this module last wrote to the variable
_watching = False


def is_linked() -> bool:
    """Return whether Abseil's C++ library is linked into the interpreter."""
    return _MODULE in sys.builtin_module_names


def define_flags() -> None:
    """Define `--minloglevel` and `--vmodule`, which Abseil defines in C++ but not in Python."""
    if not is_linked() or "minloglevel" in FLAGS:
        return
    flags.DEFINE_integer(
        "minloglevel",
        None,
        "Log nothing below this severity: 0 is INFO, 1 WARNING, 2 ERROR, 3 FATAL. "
        "--minloglevel=N equals --verbosity=-N; if both are given, the quieter one applies.",
        lower_bound=0,
        upper_bound=3,
    )
    flags.DEFINE_string(
        "vmodule",
        "",
        "VLOG levels of single C++ files: `socket=2,Proc*=1`. Names have no directory or "
        "extension; * and ? are wildcards. For Python's loggers, use --logger_levels.",
    )
    flags.register_validator(
        "vmodule", _is_module_levels, message="give NAME=LEVEL, separated by commas"
    )


def severity_name(verbosity: int) -> str:
    """Return the C++ name of the lowest severity that an Abseil verbosity shows."""
    return _SEVERITIES[min(max(-verbosity, 0), 3)]


def follow() -> None:
    """Keep C++ log levels equal to Python's until `unfollow` is called.

    If the user set TORCH_CPP_LOG_LEVEL, that level applies to C++ code instead.
    """
    global _user_level, _following, _watching
    if not is_linked():
        return
    _following = True
    if not _watching:
        _watching = True
        # Abseil runs validators whenever the flag changes, even if Abseil itself changes it.
        flags.register_validator("verbosity", _changed)
    _limit(absl_logging.get_verbosity())
    verbosity = absl_logging.get_verbosity()
    # If the variable equals the level that the flags imply, assume that the parent process set it,
    # not the user.
    level = os.environ.get(LEVEL_VARIABLE, "")
    _user_level = "" if level in (_own_level, severity_name(verbosity)) else level
    _set_levels(verbosity)
    for pattern, module_level in reversed(_module_levels()):
        _native().set_module_level(pattern, module_level)


def unfollow() -> None:
    """Stop copying Python's log levels to C++.

    C++ keeps its current levels, which then also apply to messages at process exit.
    """
    global _following
    _following = False


def tag_messages(on: bool) -> None:
    """Format C++ messages as `native.py` expects them or, if `on` is false, as Abseil does."""
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
    """Cap the verbosity at the limit that --minloglevel sets. Return whether it was higher."""
    least = FLAGS["minloglevel"].value if "minloglevel" in FLAGS else None
    if least is None or verbosity <= -least:
        return False
    FLAGS.verbosity = -least
    return True


def _set_levels(verbosity: int) -> None:
    global _own_level
    name = severity_name(verbosity)
    if _user_level:
        name = _severity_of(_user_level)
    else:
        os.environ[LEVEL_VARIABLE] = _own_level = name
    severity = _SEVERITIES.index(name)
    native = _native()
    native.set_log_levels(severity, max(verbosity, 0))
    if _LEVEL_FLAG in native.flags():  # torch is imported already
        native.set_flag(_LEVEL_FLAG, str(severity))


def _severity_of(text: str) -> str:
    """Return the severity that torch sets for `text`, the value of LEVEL_VARIABLE.

    The value is a name or a number. For any other value, torch logs an error and uses WARNING.
    """
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
