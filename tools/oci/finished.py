# SPDX-License-Identifier: Apache-2.0
"""Layers that a separate action has compressed, so that an edit does not compress them again.

A layer is found by the digest of its tar file, so one that differs from the image's is never used.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path

from tools.oci.descriptor import LAYER_ZSTD, Descriptor, canonical
from tools.oci.layer import Entry, Layer, diff_id, write_layer

_LIST = "layers.json"


def write_layers(directory: Path, layers: Iterable[tuple[str, list[Entry]]]) -> None:
    """Write compressed layers, and a list of them, to an empty directory."""
    rows = {}
    for title, entries in layers:
        layer = write_layer(title, entries, directory)
        rows[layer.diff_id] = {"digest": layer.descriptor.digest, "size": layer.descriptor.size}
    (directory / _LIST).write_bytes(canonical(rows))


class FinishedLayers:
    """Compressed layers that write_layers has stored in a directory; none if it is None."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._rows = json.loads((directory / _LIST).read_bytes()) if directory else {}

    def write(self, title: str, entries: list[Entry], blobs: Path) -> Layer:
        """Like write_layer, but copies the layer if it is already compressed."""
        digest = diff_id(entries) if self._rows else ""
        row = self._rows.get(digest)
        if row is None or self._directory is None:
            return write_layer(title, entries, blobs)
        descriptor = Descriptor(LAYER_ZSTD, row["digest"], row["size"])
        shutil.copyfile(self._directory / descriptor.hex, blobs / descriptor.hex)
        return Layer(descriptor, digest, title)
