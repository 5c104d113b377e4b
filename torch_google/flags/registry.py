# SPDX-License-Identifier: Apache-2.0
"""torch's options, read from the registry that generate.py creates for each torch release."""

from __future__ import annotations

import functools
import json
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

# A built program contains only the registry of its torch release; the source tree contains all.
RESOURCES = {
    "2.13.0": "registry.json",
    "2.15.0": "registry_v2.15.0.json",
    "2.6.0": "registry_v2.6.0.json",
}


class Option(NamedTuple):
    """An entry of a config module.

    default: torch's default as a Python literal; None if torch computes it at run time.
    force, environ, read: names of the environment variables that set the entry. `force` variables
    override the program's assignments, and `environ` variables override the default. The expression
    that computes the default reads the `read` variables.
    left_out: the reason why the entry has no flag, or "" if it has one.
    """

    flag: str
    module: str
    name: str
    type: str
    default: str | None = None
    force: tuple[str, ...] = ()
    environ: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    knob: str | None = None
    deprecated: bool = False
    left_out: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """All of the entry's environment variables, in descending order of precedence."""
        return self.force + self.environ + self.read


class Variable(NamedTuple):
    """One of torch's environment variables.

    `readers` lists the code that reads it: "python", "native" or "tests" (torch's test support).
    If the variable has no flag, `flag` is empty and `left_out` gives the reason. If it shares a
    flag with an option, the flag sets both.
    """

    flag: str
    name: str
    readers: tuple[str, ...]
    left_out: str = ""


def options() -> tuple[Option, ...]:
    """Return every entry of every config module, in torch's order."""
    return _registry()[0]


def variables() -> tuple[Variable, ...]:
    """Return all of torch's environment variables, sorted."""
    return _registry()[1]


@functools.cache
def option_of(flag: str) -> Option | None:
    """Return the option that a flag sets, or None if it sets no option."""
    return _by_flag().get(flag)


def torch_version() -> str:
    """Return the torch release that the registry was generated from."""
    version: str = _content()["torch"]
    return version


@functools.cache
def _by_flag() -> dict[str, Option]:
    return {option.flag: option for option in options() if not option.left_out}


def resource() -> Traversable:
    """Return the registry file's path."""
    candidates = [files(__package__).joinpath(name) for name in RESOURCES.values()]
    return next(file for file in candidates if file.is_file())


@functools.cache
def _content() -> Any:
    return json.loads(resource().read_text(encoding="utf-8"))


@functools.cache
def _registry() -> tuple[tuple[Option, ...], tuple[Variable, ...]]:
    content = _content()
    entries = tuple(
        Option(
            flag_of(module, name),
            module,
            name,
            facts["type"],
            facts.get("default"),
            tuple(facts.get("force", ())),
            tuple(facts.get("environ", ())),
            tuple(facts.get("read", ())),
            facts.get("knob"),
            facts.get("deprecated", False),
            facts.get("left_out", ""),
        )
        for module, module_entries in content["modules"].items()
        for name, facts in module_entries.items()
    )
    names = tuple(
        Variable(
            "" if facts.get("left_out") else name.lower(),
            name,
            tuple(facts["readers"]),
            facts.get("left_out", ""),
        )
        for name, facts in content["environment"].items()
    )
    return entries, names


@functools.cache
def _prefix(module: str) -> str:
    *packages, last = [part.lstrip("_") for part in module.split(".")]
    return "_".join([*packages, *filter(None, [last.removeprefix("config").lstrip("_")])])


def flag_of(module: str, name: str) -> str:
    """Return the name of an entry's flag.

    For example, `triton.cudagraphs` in `torch._inductor.config` has the flag
    `torch_inductor_triton_cudagraphs`.
    """
    return f"{_prefix(module)}_{name.replace('.', '_')}"
