# SPDX-License-Identifier: Apache-2.0
"""What a user may say about the stream: flags beside Abseil's own, and what holds without them."""

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
    """How the stream is written.

    `directory` is a path of gfile, empty for no files; `directory_flag` is the flag that named it,
    empty if the program did.
    """

    directory: str = ""
    directory_flag: str = ""
    json: bool = False
    native: bool = False


def define_flags() -> None:
    """Define `--torch_log_directory`, `--torch_log_json` and `--torch_log_native`, once.

    And, where torch's C++ code is linked in, `--minloglevel` and `--vmodule`, as C++ programs have them.
    Before flags are parsed. Abseil's own (`--verbosity`, `--logger_levels`, `--log_dir`, ...) are there
    without this, and hold for the whole stream.
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
        "Take what C++ code writes to standard error into the log. The default is to do so in a PAR.",
    )
    abseil.define_flags()


def options(directory: str | None, json: bool | None, native: bool | None) -> Options:
    """Return the options: an argument unless it is None, else its flag, else the default."""
    flag = _directory_flag() if directory is None else ""
    return Options(
        directory=FLAGS[flag].value if flag else directory or "",
        directory_flag=flag,
        json=_choose(json, "torch_log_json", False),
        native=_choose(native, "torch_log_native", in_par()),
    )


def in_par() -> bool:
    """Whether this process runs a PAR."""
    return find_spec("_par") is not None


def _directory_flag() -> str:
    """Return the flag that names a directory for the log: ours before Abseil's; empty if none does."""
    if _choose(None, _DIRECTORY, ""):
        return _DIRECTORY
    # The default of --log_dir comes from TEST_TMPDIR, and asks for no files.
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
