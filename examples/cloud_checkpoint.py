# SPDX-License-Identifier: Apache-2.0
"""Train a small model, with checkpoints in S3, Google Cloud Storage or a local directory.

The program loads the checkpoint under --checkpoint, if there is one, trains for a few steps, and
replaces the checkpoint. --format is `single` (one file, written by torch.save) or `distributed` (a
directory, written by torch.distributed.checkpoint). Credentials and endpoints come from the
environment: AWS_ENDPOINT_URL and STORAGE_EMULATOR_HOST select servers other than Amazon's and
Google's.
"""

from __future__ import annotations

import torch
from absl import app, flags
from torch import nn
from torch.distributed import checkpoint as distributed_checkpoint

from torch_google import gfile

_CHECKPOINT = flags.DEFINE_string(
    "checkpoint", None, "Directory for the checkpoint: s3://..., gs://... or a local path."
)
_FORMAT = flags.DEFINE_enum(
    "format", "single", ["single", "distributed"], "One file, or torch.distributed.checkpoint's."
)
_STEPS = flags.DEFINE_integer("steps", 3, "How many more steps to train.", lower_bound=0)
_WIDTH = flags.DEFINE_integer(
    "width", 64, "Width of the model; the checkpoint has 8 * width * width bytes.", lower_bound=1
)
_READ_ONLY = flags.DEFINE_bool("read_only", False, "Load and train, but write nothing.")


class Trainer:
    """A linear model and its optimizer. `step` is the total number of steps in all runs."""

    def __init__(self, width: int) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(width, width)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.step = 0
        self._width = width

    def train(self, steps: int) -> float:
        """Train for `steps` steps, and return the loss with the final weights."""
        for _ in range(steps):
            self.optimizer.zero_grad()
            self._loss().backward()
            self.optimizer.step()
            self.step += 1
        with torch.no_grad():
            return self._loss().item()

    def state_dict(self) -> dict[str, object]:
        """Return the step count, the weights and the momentum, which is zero before step 1."""
        momentum = {
            name: self.optimizer.state[value].get("momentum_buffer", torch.zeros_like(value))
            for name, value in self.model.named_parameters()
        }
        step = torch.tensor(self.step)
        return {"step": step, "model": self.model.state_dict(), "momentum": momentum}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Restore a state that `state_dict` returned."""
        step, model, momentum = state["step"], state["model"], state["momentum"]
        assert isinstance(step, torch.Tensor)
        assert isinstance(model, dict)
        assert isinstance(momentum, dict)
        self.step = int(step)
        self.model.load_state_dict(model)
        for name, value in self.model.named_parameters():
            self.optimizer.state[value]["momentum_buffer"] = momentum[name]

    def _loss(self) -> torch.Tensor:
        rows = torch.linspace(-1, 1, 8 * self._width).reshape(8, self._width)
        return nn.functional.mse_loss(self.model(rows), rows.flip(0))


def load(trainer: Trainer, directory: str, form: str) -> bool:
    """Restore the checkpoint under `directory`. Return False if there is none."""
    if form == "single":
        path = f"{directory}/checkpoint.pt"
        if not gfile.Exists(path):
            return False
        with gfile.Open(path, "rb") as file:
            trainer.load_state_dict(torch.load(file, weights_only=True))
        return True
    if not gfile.Exists(f"{directory}/distributed/.metadata"):
        return False
    state = trainer.state_dict()
    reader = gfile.CheckpointReader(f"{directory}/distributed")
    distributed_checkpoint.load(state, storage_reader=reader, no_dist=True)
    trainer.load_state_dict(state)
    return True


def save(trainer: Trainer, directory: str, form: str) -> None:
    """Replace the checkpoint atomically: readers see either the old or the new checkpoint."""
    gfile.MakeDirs(directory)
    if form == "single":
        with gfile.Open(f"{directory}/checkpoint.pt", "wb") as file:
            torch.save(trainer.state_dict(), file)
        return
    writer = gfile.CheckpointWriter(f"{directory}/distributed")
    distributed_checkpoint.save(trainer.state_dict(), storage_writer=writer, no_dist=True)


def main(argv: list[str]) -> None:
    """Load the checkpoint, train, and save."""
    if len(argv) > 1:
        raise app.UsageError(f"found the argument {argv[1]!r}, expected flags only")
    torch.set_num_threads(1)
    directory = _CHECKPOINT.value.rstrip("/")
    trainer = Trainer(_WIDTH.value)
    loaded = load(trainer, directory, _FORMAT.value)
    print(f"loaded step {trainer.step}" if loaded else "no checkpoint", flush=True)
    loss = trainer.train(_STEPS.value)
    if not _READ_ONLY.value:
        save(trainer, directory, _FORMAT.value)
    print(f"step {trainer.step}, loss {loss:.8f}")


if __name__ == "__main__":
    flags.mark_flag_as_required("checkpoint")
    app.run(main)
