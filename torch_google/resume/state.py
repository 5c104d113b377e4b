# SPDX-License-Identifier: Apache-2.0
"""The state of a training run, and its checkpoint."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import torch
from torch import distributed, nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_state_dict,
)

from torch_google import gfile
from torch_google.resume.preemption import Agreement

# Store the optimizer's state per parameter, so that a run with more or fewer ranks can load it.
_OPTIONS = StateDictOptions(flatten_optimizer_state_dict=True)


class Stateful(Protocol):
    """An object with state to save, such as a learning rate scheduler or a stateful data loader."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any], /) -> Any: ...


class ResumeError(RuntimeError):
    """Raised if the ranks cannot resume from a directory."""


class State:
    """The state to save and restore: a model, its optimizer, and other named objects.

    The state of the other objects must be the same in all ranks. The state of torch's default
    random number generators is also saved, separately for each rank.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        others: Mapping[str, Stateful | torch.Generator] | None = None,
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._others = dict(others or {})
        device = next((value.device.type for value in model.parameters()), "cpu")
        self._generators: dict[str, Any] = {"cpu": torch}
        if device != "cpu":
            self._generators[device] = torch.get_device_module(device)

    def save(
        self, step: int, directory: str, group: distributed.ProcessGroup | None = None
    ) -> None:
        """Replace the checkpoint atomically. All ranks must call this."""
        values = self._values(step)
        values["random"] = {
            f"{name}_{_rank()}": module.get_rng_state() for name, module in self._generators.items()
        }
        with _quiet():
            checkpoint.save(
                values,
                storage_writer=gfile.CheckpointWriter(directory),
                process_group=group,
                no_dist=group is None,
            )

    def load(self, directory: str, group: distributed.ProcessGroup | None = None) -> int:
        """Restore the state. Return the step of the checkpoint, or 0 if there is none.

        All ranks must call this. Raises ResumeError if only some ranks see the checkpoint.
        """
        exists = Agreement(group).same(gfile.Exists(f"{directory}/.metadata"))
        if exists is None:
            raise ResumeError(
                f"{directory}: only some ranks see a checkpoint; use a directory that all machines "
                "share, or a store such as gs://BUCKET/RUN"
            )
        if not exists:
            return 0
        reader = gfile.CheckpointReader(directory)
        saved = reader.read_metadata().state_dict_metadata
        values = self._values(0)
        # If the saved run had fewer ranks, its checkpoint has no generator states for this rank.
        values["random"] = {
            f"{name}_{_rank()}": module.get_rng_state()
            for name, module in self._generators.items()
            if f"random.{name}_{_rank()}" in saved
        }
        with _quiet():
            checkpoint.load(
                values, storage_reader=reader, process_group=group, no_dist=group is None
            )
        set_state_dict(
            self._model,
            self._optimizer,
            model_state_dict=values["model"],
            optim_state_dict=values["optimizer"],
            options=_OPTIONS,
        )
        for name, other in self._others.items():
            if isinstance(other, torch.Generator):
                other.set_state(values["others"][name])
            else:
                other.load_state_dict(values["others"][name])
        for name, module in self._generators.items():
            if f"{name}_{_rank()}" in values["random"]:
                module.set_rng_state(values["random"][f"{name}_{_rank()}"])
        return int(values["step"])

    def _values(self, step: int) -> dict[str, Any]:
        model, optimizer = get_state_dict(self._model, self._optimizer, options=_OPTIONS)
        others = {
            name: other.get_state() if isinstance(other, torch.Generator) else other.state_dict()
            for name, other in self._others.items()
        }
        return {
            "model": model,
            "optimizer": optimizer,
            "others": others,
            "step": torch.tensor(step),
        }


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress torch's warnings about replacing a checkpoint and about a missing process group."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Detected an existing checkpoint")
        warnings.filterwarnings("ignore", "torch.distributed is disabled, unavailable")
        yield


def _rank() -> int:
    return distributed.get_rank() if distributed.is_initialized() else 0
