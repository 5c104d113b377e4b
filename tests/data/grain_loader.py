# SPDX-License-Identifier: Apache-2.0
"""Loaders that use grain. Its workers are spawned, so this module does not import torch."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import grain
import numpy as np
from array_record.python import array_record_data_source, array_record_module

from tests.data import records
from torch_google import gfile

BATCH = 4
EPOCHS = 2
_SEED = 3


class GrainLoader:
    """grain's MapDataset over `Records`, shuffled and batched."""

    def __init__(self, path: str, workers: int) -> None:
        self._iterator = _iterator(records.Records(path), workers, np.asarray)

    def __iter__(self) -> Iterator[list[int]]:
        """Yield each batch as the list of its records' indices."""
        for batch in self._iterator:
            yield [int(row[0]) for row in batch]

    def state(self) -> Any:
        """Return the loader's state, which is JSON-serializable."""
        return self._iterator.get_state()

    def resume(self, state: Any) -> None:
        """Restore `state`, and continue with the next batch."""
        self._iterator.set_state(state)


class ArrayRecordLoader(GrainLoader):
    """A GrainLoader for an array_record file, whose C++ reader opens only local files."""

    def __init__(self, path: str, workers: int) -> None:
        if gfile.is_remote(path):
            folder = tempfile.mkdtemp()
            local = os.path.join(folder, os.path.basename(path))
            gfile.Copy(path, local)
            path = local
        source = array_record_data_source.ArrayRecordDataSource(path)
        self._iterator = _iterator(source, workers, _parse)


def write_array_record(path: str, count: int) -> None:
    """Write the same records as `records.write`, as an array_record file."""
    with tempfile.TemporaryDirectory() as folder:
        local = os.path.join(folder, "records")
        writer = array_record_module.ArrayRecordWriter(local, "group_size:1")
        for index in range(count):
            writer.write(np.full(records.WIDTH, index, np.int32).tobytes())
        writer.close()
        gfile.Copy(local, path)


def _parse(record: bytes) -> np.ndarray:
    return np.frombuffer(record, np.int32)


def _iterator(source: Any, workers: int, parse: Callable[[Any], np.ndarray]) -> Any:
    dataset = grain.MapDataset.source(source).shuffle(seed=_SEED).repeat(EPOCHS).map(parse)
    batches = dataset.batch(BATCH).to_iter_dataset()
    if workers:
        batches = batches.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
    return iter(batches)
