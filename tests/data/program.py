# SPDX-License-Identifier: Apache-2.0
"""Print the batches of a loader, and save its state after each one. Resume from the saved state.

The test kills this program between two batches, or during a save.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Sequence
from typing import Any

from absl import app, flags

from torch_google import gfile

LOADERS = {
    "grain": "tests.data.grain_loader:GrainLoader",
    "array_record": "tests.data.grain_loader:ArrayRecordLoader",
    "torchdata": "tests.data.torchdata_loader:TorchdataLoader",
}

_LOADER = flags.DEFINE_enum("loader", None, list(LOADERS), "The loader.", required=True)
_RECORDS = flags.DEFINE_string("records", None, "The file of records.", required=True)
_STATE = flags.DEFINE_string("state", None, "The file of the state.", required=True)
_WORKERS = flags.DEFINE_integer("workers", 0, "Processes that load.")


def create(name: str, path: str, workers: int) -> Any:
    """Return the loader called `name`. Import only the libraries that it needs."""
    module, _, kind = LOADERS[name].partition(":")
    return getattr(importlib.import_module(module), kind)(path, workers)


def main(argv: Sequence[str]) -> int:
    """Load all remaining batches."""
    loader = create(_LOADER.value, _RECORDS.value, _WORKERS.value)
    step = 0
    if gfile.Exists(_STATE.value):
        with gfile.Open(_STATE.value, "rb") as file:
            step, state = pickle.loads(file.read())
        loader.resume(state)
    print(f"starts at {step}", flush=True)
    for batch in loader:
        step += 1
        with gfile.Open(_STATE.value, "wb") as file:
            file.write(pickle.dumps((step, loader.state())))
        print(step, *batch, flush=True)
    return 0


if __name__ == "__main__":
    app.run(main)
