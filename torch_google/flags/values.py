# SPDX-License-Identifier: Apache-2.0
"""Store the given flags for this process and its children, and apply them to torch's configs.

The flags are stored in an environment variable, as a JSON object that maps each flag's name to its
value as text. Child processes inherit the variable, whatever their start method, and torch need not
be imported yet. A child with another torch release ignores flags that are missing from its
registry.
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


def flag_texts() -> dict[str, str]:
    """Return the flags that were given, as a dict from each flag's name to its value as text.

    Raises a ValueError naming the environment variable if its JSON is malformed.
    """
    return dict(_read(os.environ.get(VARIABLE, "{}")))


def give(texts: dict[str, str]) -> None:
    """Add flags to those given so far. If a flag is given again, its latest value applies."""
    if texts:
        os.environ[VARIABLE] = json.dumps({**flag_texts(), **texts})


def value_of(option: Option) -> Any:
    """Return the value given for an option. Raises KeyError if its flag is not given."""
    return kind(option.type).parse(flag_texts()[option.flag])


def given_options() -> list[Option]:
    """Return the options whose flags are given."""
    return [option for option in map(option_of, flag_texts()) if option is not None]


def settle(module: ModuleType) -> None:
    """Apply the given flags to one of torch's config modules.

    Raises ValueError if the installed torch lacks the entry that a flag sets.
    """
    for option in given_options():
        if option.module == module.__name__:
            _set(module, option)


def settle_without_hooks() -> None:
    """If torch lacks the config hook, import its config modules and apply the given flags.

    If torch has the hook, it calls `settle` for each config module instead. Also warn if
    `--torch_justknobs` is given but torch has no hook for it.
    """
    if not _has_hook():
        settle_now()
    if _KNOBS in flag_texts() and "torch._seam.configs" not in sys.modules:
        warnings.warn(f"--{_KNOBS}: this torch has no hook for knobs", stacklevel=2)


def settle_now() -> None:
    """Apply the given flags to the config modules imported so far.

    If torch has no hook that would call `settle` later, import the other modules now.
    """
    for name in dict.fromkeys(option.module for option in given_options()):
        module = sys.modules.get(name)
        if module is None and _has_hook():
            continue
        settle(module or import_module(name))


def knob(name: str, default: bool) -> bool:
    """Return the value of a boolean knob from `--torch_justknobs`, or `default`."""
    return bool(_knobs(flag_texts().get(_KNOBS, "")).get(name, default))


def knob_number(name: str) -> int:
    """Return the value of an integer knob from `--torch_justknobs`, or 0 if it is not set."""
    return _knobs(flag_texts().get(_KNOBS, "")).get(name, 0)


def _has_hook() -> bool:
    """Return whether torch has the hook that runs whenever a config module is installed."""
    return hasattr(sys.modules.get("torch.utils._config_module"), "_seam_configs")


def _set(module: Any, option: Option) -> None:
    entry = module._config.get(option.name)
    if entry is None:
        raise ValueError(
            f"--{option.flag}: this torch has no {option.module}.{option.name}. Leave the flag out"
        )
    # Store the value as if an environment variable had set it, because it then applies to every
    # thread, whereas an assignment would not. Like the variable, it overrides the program's
    # assignments only if torch declares the option with `env_name_force`.
    unset = import_module("torch.utils._config_module")._UNSET_SENTINEL
    entry.env_value_force = value_of(option) if option.force else unset
    entry.env_value_default = unset if option.force else value_of(option)
    # torch copies a mutable default when it is first read, and the copy would hide the new value.
    copies = type(entry.default) in (list, dict, set)
    if not hasattr(module, "_hash_dirty_var"):  # in torch v2.6, an override applies to all threads
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
        texts = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{VARIABLE}: not JSON ({error}). Unset it") from None
    if not isinstance(texts, dict) or not all(isinstance(one, str) for one in texts.values()):
        raise ValueError(f"{VARIABLE}: not an object of strings. Unset it")
    return texts


@functools.lru_cache(maxsize=1)
def _knobs(text: str) -> dict[str, int]:
    return parse_knobs(text)
