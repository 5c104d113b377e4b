# SPDX-License-Identifier: Apache-2.0
"""The pin of a project whose tree is upstream's files with our patches applied."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.importer.errors import UserError

_TEXTS = ("tag", "tree_hash")


@dataclass(frozen=True)
class TreePin:
    """The content of pin.json. `tag` names the release; `origin` pins upstream's files by hash.

    `previous` holds the tag, the origin and the tree hash of the previous release.
    """

    tag: str
    version: str | None
    ref: str | None
    commit: str | None
    origin: Mapping[str, object]
    tree_hash: str
    previous: Mapping[str, object] | None = None

    def as_json(self) -> dict[str, object]:
        """Return the JSON object for pin.json."""
        return {key: value for key, value in vars(self).items() if value is not None}


def pin_bytes(pin: Mapping[str, object]) -> bytes:
    """Return the bytes of pin.json for `pin`."""
    return (json.dumps(pin, indent=2) + "\n").encode()


def read_tree_pin(file: Path) -> TreePin:
    """Read pin.json. Raises a UserError naming the file and the key if it is invalid."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: {error!r}. Restore it from version control") from None
    return parse_tree_pin(file, data)


def parse_tree_pin(file: Path, data: object) -> TreePin:
    """Parse the JSON document of `file`. Raises a UserError naming the key if it is invalid."""
    if not isinstance(data, dict):
        raise UserError(f"{file}: not a JSON object. Restore it from version control")
    for key in _TEXTS:
        if not isinstance(data.get(key), str):
            raise UserError(
                f"{file}: key '{key}' is {json.dumps(data.get(key))}, not a text. Restore it from"
                " version control"
            )
    origin = data.get("origin")
    if not isinstance(origin, dict):
        raise UserError(
            f"{file}: key 'origin' is {json.dumps(origin)}, not an object. Restore it from version"
            " control"
        )
    return TreePin(
        data["tag"],
        data.get("version"),
        data.get("ref"),
        data.get("commit"),
        origin,
        data["tree_hash"],
        data.get("previous"),
    )
