# SPDX-License-Identifier: Apache-2.0
"""Support importlib.metadata for the distributions (wheels) that are packed in the PAR."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from typing import TYPE_CHECKING

from par_runtime import files

if TYPE_CHECKING:
    from _par_importer import Bundle, Runtime


class PackedDistribution(Distribution):
    def __init__(self, name: str, bundle: Bundle, directory: str, entry_points: str) -> None:
        self._normalized = name
        self._bundle = bundle
        self._directory = directory
        self._entry_points = entry_points

    def read_text(self, filename: str | os.PathLike[str]) -> str | None:
        if filename == "entry_points.txt":
            return self._entry_points or None
        relative = os.path.normpath(os.path.join(self._directory, os.fspath(filename)))
        try:
            if self._bundle.on_disk:
                with open(os.path.join(self._bundle.virtual_root, relative), "rb") as stream:
                    data = stream.read()
            else:
                data = files.read(self._bundle, relative)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        return data.decode("utf-8")

    @property
    def _normalized_name(self) -> str:
        # importlib.metadata.entry_points() reads this property for each distribution. The inherited
        # property would parse METADATA.
        return self._normalized

    def locate_file(self, path: str | os.PathLike[str]) -> Path:
        return Path(self._bundle.virtual_root, path)


def distributions(
    runtime: Runtime, context: DistributionFinder.Context | None
) -> Iterator[Distribution]:
    """Yield the distributions named `context.name`, or all if it is None."""
    selected = None if context is None or context.name is None else normalized(context.name)
    for name, (number, directory, entry_points) in sorted(runtime.distributions.items()):
        if selected is None or name == selected:
            yield PackedDistribution(name, runtime.bundles[number], directory, entry_points)


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()
