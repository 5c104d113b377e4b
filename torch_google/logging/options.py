# SPDX-License-Identifier: Apache-2.0
"""Options of the log stream, their defaults, and the flags that set them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TypeVar

from absl import flags

from torch_google.logging import abseil

FLAGS = flags.FLAGS

_DIRECTORY = "torch_log_directory"
_ABSEIL_DIRECTORY = "log_dir"

_T = TypeVar("_T")


@dataclass(frozen=True)
class Options:
    """The resolved options of the log stream.

    `directory` is a gfile path, or empty to write no files. `directory_flag` is the name of the
    flag that set it, or empty if no flag did.
    """

    directory: str = ""
    directory_flag: str = ""
    json: bool = False
    native: bool = False


def define_flags() -> None:
    """Define `--torch_log_directory`, `--torch_log_json` and `--torch_log_native`. Idempotent.

    If Abseil's C++ library is linked in, also define its flags `--minloglevel` and `--vmodule`.
    Call this before flags are parsed. Abseil's own flags (`--verbosity`, `--logger_levels`,
    `--log_dir`, ...) apply to the records of all libraries.
    """
    if _DIRECTORY in FLAGS:
        return
    flags.DEFINE_string(
        _DIRECTORY,
        "",
        "Also write the log to files in this directory, one per process; any path of "
        "torch_google.gfile. The default is --log_dir, if that is given.",
    )
    flags.DEFINE_boolean("torch_log_json", False, "Write each log record as one JSON object.")
    flags.DEFINE_boolean(
        "torch_log_native",
        None,
        "Log the messages that C++ code writes to standard error. The default is true in a PAR.",
    )
    abseil.define_flags()


def options(directory: str | None, json: bool | None, native: bool | None) -> Options:
    """Return the options. Arguments that are not None override flags, which override defaults."""
    flag = _directory_flag() if directory is None else ""
    return Options(
        directory=FLAGS[flag].value if flag else directory or "",
        directory_flag=flag,
        json=_choose(json, "torch_log_json", False),
        native=_choose(native, "torch_log_native", in_par()),
    )


def in_par() -> bool:
    """Return whether this process runs a PAR (a one-file program, built by tools/par)."""
    return find_spec("_par") is not None


def _directory_flag() -> str:
    """Return the name of the flag that sets the log directory, or "" if none does.

    --torch_log_directory takes precedence over Abseil's --log_dir.
    """
    if _choose(None, _DIRECTORY, ""):
        return _DIRECTORY
    # Ignore the default of --log_dir, which may come from TEST_TMPDIR: the user did not set it.
    if FLAGS.is_parsed() and not FLAGS[_ABSEIL_DIRECTORY].using_default_value:
        return _ABSEIL_DIRECTORY if FLAGS[_ABSEIL_DIRECTORY].value else ""
    return ""


def _choose(argument: _T | None, flag: str, default: _T) -> _T:
    if argument is not None:
        return argument
    if FLAGS.is_parsed() and flag in FLAGS and FLAGS[flag].value is not None:
        value: _T = FLAGS[flag].value
        return value
    return default
