# SPDX-License-Identifier: Apache-2.0
"""Abseil flags for the registry's entries. If a flag is not given, torch's default applies."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from absl import flags

from torch_google.flags.comments import comment
from torch_google.flags.kinds import Kind, kind
from torch_google.flags.knobs import parse_knobs
from torch_google.flags.registry import Option, Variable, options, variables

KNOBS = "torch_justknobs"
SHOW = "torch_flags_show"
_ENVIRONMENT = "torch (environment)"
_OURS = "torch_google.flags"


def define_flags(flag_values: flags.FlagValues) -> None:
    """Define all flags. Idempotent. Raises flags.DuplicateFlagError if a name is already taken."""
    if KNOBS in flag_values:
        return
    defined: set[str] = set()
    for option in options():
        if not option.left_out:
            defined.add(option.flag)
            _define(flag_values, option.flag, kind(option.type), option.module, option)
    for variable in variables():
        if variable.flag and variable.flag not in defined:
            _define(flag_values, variable.flag, kind("str"), _ENVIRONMENT, variable)
    flags.DEFINE_flag(
        flags.Flag(
            _KnobParser(),
            None,
            KNOBS,
            None,
            "Internal feature switches of torch's maintainers, as NAME=VALUE,NAME=VALUE; a value is "
            "true, false or a number. Needs the patched torch.",
        ),
        flag_values,
        _OURS,
    )
    flags.DEFINE_flag(
        flags.Flag(
            _ShowParser(),
            None,
            SHOW,
            None,
            "Print the torch options that a flag or the environment sets, with value and source, and "
            "exit; --torch_flags_show=all prints all of them.",
            boolean=True,
        ),
        flag_values,
        _OURS,
    )


class _TorchFlag(flags.Flag[Any]):
    """A flag whose help is computed on demand, because computing it requires torch's sources."""

    def __init__(self, name: str, of: Kind, describe: Callable[[], str]) -> None:
        self._describe = describe
        parser, serializer = _tools(of)
        super().__init__(parser, serializer, name, None, "-", boolean=of.boolean)

    @property
    def help(self) -> str:
        return self._describe()

    @help.setter  # noqa: A003 - the name is Abseil's
    def help(self, text: str) -> None:
        del text  # Abseil's constructor assigns a placeholder


class _Parser(flags.ArgumentParser[Any]):
    def __init__(self, of: Kind) -> None:
        self._kind = of

    def parse(self, argument: Any) -> Any:
        return self._kind.parse(argument)

    def flag_type(self) -> str:
        return self._kind.text_of_type


class _Serializer(flags.ArgumentSerializer[Any]):
    def __init__(self, of: Kind) -> None:
        self._kind = of

    def serialize(self, value: Any) -> str:
        return self._kind.text(value)


class _KnobParser(flags.ArgumentParser[str]):
    def parse(self, argument: str) -> str:
        parse_knobs(argument)
        return argument


class _ShowParser(flags.ArgumentParser[str]):
    def parse(self, argument: str) -> str:
        values = {"all": "all", "false": "", "true": "set"}
        if argument not in values:
            raise ValueError(f"{argument!r} is not 'all'")
        return values[argument]


@functools.cache
def _tools(of: Kind) -> tuple[_Parser, _Serializer]:
    return _Parser(of), _Serializer(of)


def _define(
    flag_values: flags.FlagValues, name: str, of: Kind, module: str, entry: Option | Variable
) -> None:
    flag = _TorchFlag(name, of, functools.partial(_describe, entry))
    flags.DEFINE_flag(flag, flag_values, module)


def _describe(entry: Option | Variable) -> str:
    return _describe_option(entry) if isinstance(entry, Option) else _describe_variable(entry)


def _describe_option(option: Option) -> str:
    default = "computed" if option.default is None else option.default
    parts = [f"{option.type}; torch's default: {default}"]
    if option.names:
        parts.append(f"environment: {', '.join(option.names)}")
    if option.knob:
        parts.append(f"knob: {option.knob}")
    if option.deprecated:
        parts.append("deprecated")
    return f"{'; '.join(parts)}. {comment(option.module, option.name)}".strip()


def _describe_variable(variable: Variable) -> str:
    readers = {"native": "C++ code", "python": "Python code", "tests": "torch's own tests"}
    return f"Sets {variable.name}; read by {', '.join(readers[one] for one in variable.readers)}."
