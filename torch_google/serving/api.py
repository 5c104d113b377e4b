# SPDX-License-Identifier: Apache-2.0
"""A LitAPI that serves a model file or a module. Requests and responses are JSON arrays."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from litserve import LitAPI

from torch_google.serving.limits import Limits
from torch_google.serving.signature import Signature
from torch_google.serving.source import Source


class TensorAPI(LitAPI):
    """A LitAPI that serves the model from a `Source`. Only worker processes import torch."""

    def __init__(
        self, source: Source, limits: Limits, *, threads: int = 1, api_path: str = "/predict"
    ) -> None:
        super().__init__(max_batch_size=limits.batch, api_path=api_path)
        self.signature: Signature | None = None
        self._source = source
        self._threads = threads
        self._model: Any = None

    def setup(self, device: str) -> None:
        """Load the model and warm it up."""
        import torch

        from torch_google.serving import loading

        torch.set_num_threads(self._threads)
        self._model = loading.load(self._source, device, self.max_batch_size)
        self.signature = self._model.warm_up()

    def batch(self, inputs: list[dict[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
        """Return the inputs unchanged, because the model itself batches inputs of equal shape."""
        return inputs

    def predict(self, x: Any) -> Any:
        """Return the outputs for one example, or a list of outputs for a list of examples."""
        return self._model(x) if isinstance(x, list) else self._model([x])[0]

    def unbatch(self, output: Any) -> Any:
        return output

    def encode_response(self, output: dict[str, np.ndarray]) -> bytes:
        """Return the outputs for one example as a JSON document."""
        outputs = {name: as_json(array) for name, array in output.items()}
        return json.dumps({"outputs": outputs}, separators=(",", ":"), allow_nan=False).encode()


def as_json(array: np.ndarray) -> Any:
    """Return an array as nested lists. As in protobuf's JSON, NaN and infinities are strings."""
    values = array.tolist()
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return values
    return _finite(values)


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
