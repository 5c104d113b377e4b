# SPDX-License-Identifier: Apache-2.0
"""The model in a worker process. It runs examples in batches of fixed sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from torch_google.serving.errors import ServingError
from torch_google.serving.signature import Signature, TensorSpec


class Model:
    """A function whose arguments are batched tensors, in the order of `inputs`.

    The size of each batch is in `batch_sizes`, a sorted sequence. A smaller batch is padded with
    copies of its last example.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: Sequence[TensorSpec],
        batch_sizes: Sequence[int],
        device: torch.device,
    ) -> None:
        self._function = function
        self._inputs = inputs
        self._batch_sizes = batch_sizes
        self._device = device

    def warm_up(self) -> Signature:
        """Run the model, so that no request waits for a compiler, and return its signature.

        On tpu, run it with every batch size; elsewhere, only with the smallest and the largest.
        """
        example = {spec.name: spec.zeros() for spec in self._inputs}
        outputs: dict[str, np.ndarray] = {}
        extremes = sorted({self._batch_sizes[0], self._batch_sizes[-1]})
        for size in self._batch_sizes if self._device.type == "tpu" else extremes:
            outputs = self([example] * size)[0]
        return Signature(tuple(self._inputs), tuple(outputs))

    def __call__(self, examples: Sequence[Mapping[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
        """Return the outputs for each example. Examples of equal shapes share a batch."""
        results: dict[int, dict[str, np.ndarray]] = {}
        for indices in self._batches(examples):
            outputs = self._run([examples[index] for index in indices])
            for row, index in enumerate(indices):
                results[index] = {name: array[row] for name, array in outputs.items()}
        return [results[index] for index in range(len(examples))]

    def _batches(self, examples: Sequence[Mapping[str, np.ndarray]]) -> Iterator[list[int]]:
        groups: dict[tuple[Any, ...], list[int]] = {}
        for index, example in enumerate(examples):
            shapes = tuple(example[spec.name].shape for spec in self._inputs)
            groups.setdefault(shapes, []).append(index)
        largest = self._batch_sizes[-1]
        for indices in groups.values():
            for start in range(0, len(indices), largest):
                yield indices[start : start + largest]

    @torch.inference_mode()
    def _run(self, examples: list[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
        count = len(examples)
        size = next(each for each in self._batch_sizes if each >= count)
        padded = examples + [examples[-1]] * (size - count)
        tensors = []
        for spec in self._inputs:
            rows = np.stack([example[spec.name] for example in padded])
            tensor = torch.from_numpy(rows).to(getattr(torch, spec.dtype))
            tensors.append(tensor.to(self._device))
        outputs = _named(self._function(*tensors))
        for name, output in outputs.items():
            if output.dim() == 0 or output.shape[0] != size:
                raise ServingError(
                    f"the output {name} has shape {list(output.shape)} for a batch of {size}; its "
                    "dimension 0 must be the batch"
                )
        return {name: _array(output)[:count] for name, output in outputs.items()}


def _named(result: Any) -> dict[str, torch.Tensor]:
    """Return outputs by name. The default names are `output`, or `output_0`, `output_1`, ..."""
    if isinstance(result, Mapping):
        outputs = {str(name): value for name, value in result.items()}
    elif isinstance(result, tuple | list) and len(result) != 1:
        outputs = {f"output_{index}": value for index, value in enumerate(result)}
    else:
        outputs = {"output": result[0] if isinstance(result, tuple | list) else result}
    for name, value in outputs.items():
        if not isinstance(value, torch.Tensor):
            raise ServingError(
                f"the output {name} is a {type(value).__name__}; a model returns tensors, as one, "
                "as a tuple or as a dict"
            )
    return outputs


def _array(tensor: torch.Tensor) -> np.ndarray:
    host = tensor.cpu()
    return (host.float() if host.dtype == torch.bfloat16 else host).numpy()
