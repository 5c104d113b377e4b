# SPDX-License-Identifier: Apache-2.0
"""What is given, for this process and those that it starts, and how torch's entries get it.

It is kept in an environment variable, as JSON of flags and their texts: every way to start a process
takes it along, and torch may not be there yet. A program of another release ignores the flags that its
registry does not have.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import warnings
from importlib import import_module
from types import ModuleType
from typing import Any

from torch_google.flags.kinds import kind
from torch_google.flags.knobs import parse_knobs
from torch_google.flags.registry import Option, option_of

VARIABLE = "TORCH_GOOGLE_FLAGS"
_KNOBS = "torch_justknobs"


def given() -> dict[str, str]:
    """Return flag -> text. Raises ValueError that names the variable when it has something else."""
    return dict(_read(os.environ.get(VARIABLE, "{}")))


def give(texts: dict[str, str]) -> None:
    """Add flags to what is given; they win over what was."""
    if texts:
        os.environ[VARIABLE] = json.dumps({**given(), **texts})


def value_of(option: Option) -> Any:
    """Return what is given for an option. Raises KeyError when nothing is."""
    return kind(option.type).parse(given()[option.flag])


def given_options() -> list[Option]:
    """Return the options that something is given for."""
    return [option for option in map(option_of, given()) if option is not None]


def settle(module: ModuleType) -> None:
    """Set what is given for an installed config module.

    Raises ValueError when this torch has no such entry.
    """
    for option in given_options():
        if option.module == module.__name__:
            _set(module, option)


def settle_without_board() -> None:
    """Import the config modules that something is given for and settle them, and warn of knobs.

    Where torch tells the board, each config module settles when it is installed, and nothing is left.
    """
    if not _tells():
        settle_now()
    if _KNOBS in given() and "torch._seam.configs" not in sys.modules:
        warnings.warn(f"--{_KNOBS}: this torch has no board to answer for knobs", stacklevel=2)


def settle_now() -> None:
    """Settle the config modules that are there, and those which would not tell when they are."""
    for name in dict.fromkeys(option.module for option in given_options()):
        module = sys.modules.get(name)
        if module is None and _tells():
            continue
        settle(module or import_module(name))


def knob(name: str, default: bool) -> bool:
    """Return whether a knob is on."""
    return bool(_knobs(given().get(_KNOBS, "")).get(name, default))


def knob_number(name: str) -> int:
    """Return the number that a knob is set to, or 0."""
    return _knobs(given().get(_KNOBS, "")).get(name, 0)


def _tells() -> bool:
    """Whether this torch tells the board when a config module is installed."""
    return hasattr(sys.modules.get("torch.utils._config_module"), "_seam_configs")


def _set(module: Any, option: Option) -> None:
    entry = module._config.get(option.name)
    if entry is None:
        raise ValueError(
            f"--{option.flag}: this torch has no {option.module}.{option.name}. Leave the flag out"
        )
    # In the place of what the environment says: before what code sets if torch would have the
    # environment there too, else after it. Unlike an assignment it holds in every thread.
    unset = import_module("torch.utils._config_module")._UNSET_SENTINEL
    entry.env_value_force = value_of(option) if option.force else unset
    entry.env_value_default = unset if option.force else value_of(option)
    # torch's copy of the default, made when it was first read, goes.
    copies = type(entry.default) in (list, dict, set)
    if not hasattr(module, "_hash_dirty_var"):  # v2.6, where all threads have one
        if copies and entry.user_override == entry.default:
            entry.user_override = unset
        module._is_dirty = True
        return
    if copies and entry.user_override.get() == entry.default:
        entry.user_override.set(unset)
    module._hash_dirty_var.set(True)
    module._get_dict_dirty_keys_var.set(None)


@functools.lru_cache(maxsize=1)
def _read(text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{VARIABLE}: not JSON ({error}). Unset it") from None
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise ValueError(f"{VARIABLE}: not an object of strings. Unset it")
    return found


@functools.lru_cache(maxsize=1)
def _knobs(text: str) -> dict[str, int]:
    return parse_knobs(text)
