# SPDX-License-Identifier: Apache-2.0
"""Load a patch series that exists only in memory, by writing it to a temporary directory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tools.importer.errors import UserError
from tools.importer.series import Series, load_series


@contextmanager
def staged(files: Mapping[str, bytes], shown_as: Path) -> Iterator[Series]:
    """Load `files` as a validated patch series. Errors name files as if they were in `shown_as`."""
    with tempfile.TemporaryDirectory(prefix="import-series-") as scratch:
        root = Path(scratch)
        for name, data in files.items():
            (root / name).write_bytes(data)
        try:
            yield load_series(root)
        except UserError as error:
            raise type(error)(str(error).replace(scratch, str(shown_as))) from error
