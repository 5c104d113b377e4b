# SPDX-License-Identifier: Apache-2.0
"""Show the current values of all options, and where each value comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Set
from importlib import import_module
from typing import Any, NamedTuple, TextIO

from torch_google.flags import values
from torch_google.flags.registry import options, variables


class Setting(NamedTuple):
    """The value of an option and its source, such as "flag", "environment NAME" or "default"."""

    flag: str
    value: Any
    source: str


def settings(by_flag: Set[str] = frozenset()) -> Iterator[Setting]:
    """Yield the current setting of every option that has a flag. Imports torch's config modules.

    `by_flag` lists the environment variables that this process set because of a flag.
    """
    texts = values.flag_texts()
    import_module("torch")
    now: dict[str, dict[str, Any]] = {}
    shared = set()
    for option in options():
        if option.left_out:
            continue
        shared.add(option.flag)
        if option.module not in now:
            module: Any = import_module(option.module)
            now[option.module] = module._get_dict()
        source = "default"
        if option.flag in texts:
            source = "flag"
        elif name := next((name for name in option.names if name in os.environ), None):
            source = f"flag --{name.lower()}" if name in by_flag else f"environment {name}"
        yield Setting(option.flag, now[option.module].get(option.name), source)
    for variable in variables():
        if variable.flag and variable.flag not in shared:
            value = os.environ.get(variable.name)
            source = "default" if value is None else f"environment {variable.name}"
            yield Setting(variable.flag, value, "flag" if variable.name in by_flag else source)
    if knobs := texts.get("torch_justknobs"):
        yield Setting("torch_justknobs", knobs, "flag")


def show(out: TextIO, everything: bool, by_flag: Set[str]) -> None:
    """Write one line per setting: flag, value, source. Omit defaults unless `everything` is set."""
    for setting in settings(by_flag):
        if everything or setting.source != "default":
            out.write(f"--{setting.flag}={setting.value!r}  ({setting.source})\n")
