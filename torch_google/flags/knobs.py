# SPDX-License-Identifier: Apache-2.0
"""Parse torch's feature switches ("JustKnobs") from the flag that sets them.

For example: `--torch_justknobs=pytorch/compiler:x=false,pytorch/inductor:y=3`.
"""

from __future__ import annotations

_WORDS = {"true": 1, "false": 0}


def parse_knobs(text: str) -> dict[str, int]:
    """Return a dict that maps knob names to integers; true becomes 1 and false becomes 0.

    Raises a ValueError that quotes the malformed part.
    """
    knobs: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.rpartition("=")
        if not (equals and name):
            raise ValueError(f"{part!r} is not NAME=VALUE")
        word = value.strip().lower()
        try:
            knobs[name.strip()] = _WORDS[word] if word in _WORDS else int(word)
        except ValueError:
            raise ValueError(f"{part!r}: the value is not true, false or a number") from None
    return knobs
