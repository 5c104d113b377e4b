# SPDX-License-Identifier: Apache-2.0
"""The modes and options of `torch.compile(..., backend="tpu", mode=..., options={...})`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

_PRECISIONS = ("default", "high", "highest")


@dataclass(frozen=True)
class Options:
    """The backend's options.

    `donate`: whether a program may overwrite an input in place with the input's new value.

    `buckets`: the sizes to which symbolic sizes are padded, in increasing order. True means powers
    of two starting at 8; False means no padding, and one program per set of sizes.

    `max_programs`: how many programs a graph with symbolic sizes may cache. The least recently used
    program is evicted.

    `precision`: the precision of matmuls: default, high or highest. None means torch.tpu's current
    precision.
    """

    donate: bool = True
    buckets: bool | tuple[int, ...] = True
    max_programs: int = 64
    precision: str | None = None


# In Inductor, these modes launch a graph as a unit (CUDA graphs) or autotune kernels. XLA always
# does both, so the modes have no effect here.
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def parse(mode: str | None, options: Mapping[str, Any] | None) -> Options:
    """Convert a mode and options to Options.

    Raises a ValueError listing the valid choices if the mode or an option is invalid.
    """
    if mode is not None and mode not in MODES:
        raise ValueError(f"tpu: torch.compile has no mode {mode!r}. Use one of: {', '.join(MODES)}")
    values = dict(options or {})
    if unknown := sorted(set(values) - names()):
        raise ValueError(
            f"tpu: torch.compile has no option {', '.join(unknown)} for the backend 'tpu'. "
            f"Use some of: {', '.join(sorted(names()))}"
        )
    if isinstance(values.get("buckets"), list | tuple):
        values["buckets"] = tuple(values["buckets"])
    chosen = Options(**values)
    if not isinstance(chosen.donate, bool):
        raise _wrong("donate", chosen.donate, "True or False")
    if not isinstance(chosen.buckets, bool) and not _are_rising(chosen.buckets):
        raise _wrong("buckets", chosen.buckets, "True, False, or a rising list of sizes")
    if not _is_count(chosen.max_programs):
        raise _wrong("max_programs", chosen.max_programs, "a number of 1 or more")
    if chosen.precision not in (None, *_PRECISIONS):
        raise _wrong("precision", chosen.precision, f"one of {', '.join(_PRECISIONS)}, or None")
    return chosen


def names() -> frozenset[str]:
    """Return the names of all options."""
    return frozenset(field.name for field in fields(Options))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _are_rising(sizes: Any) -> bool:
    return (
        isinstance(sizes, tuple)
        and len(sizes) > 0
        and all(map(_is_count, sizes))
        and list(sizes) == sorted(set(sizes))
    )


def _wrong(name: str, value: Any, expected: str) -> ValueError:
    return ValueError(f"tpu: torch.compile: option {name}={value!r}. Use {expected}")
