# SPDX-License-Identifier: Apache-2.0
"""Write the output files of a run atomically: a checkpoint and a plot of the loss."""

from __future__ import annotations

import dataclasses
import io
import os
import pathlib
import tempfile

import torch

from examples import training

CHECKPOINT = "checkpoint.pt"
CURVE = "loss.svg"


class OutputError(OSError):
    """Raised if an output directory is not writable. The message is one line for the user."""


def prepare(directory: pathlib.Path) -> None:
    """Create `directory`. Raises OutputError if it is not writable.

    Call this before training, so that an hour of work does not end with "permission denied".
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise OutputError(
            f"--output={directory}: cannot write there: {error.strerror}. "
            "Give a writable directory, or --output= to write nothing."
        ) from error


def write_checkpoint(
    directory: pathlib.Path, result: training.Result, options: training.Options, *, data: str
) -> pathlib.Path:
    """Save the weights and metadata so that `torch.load(weights_only=True)` accepts the file."""
    metadata = {
        **dataclasses.asdict(options),
        "accuracy": result.accuracy,
        "data": data,
        "losses": result.losses,
        "torch": str(torch.__version__),
    }
    content = io.BytesIO()
    # Save CPU tensors, because the machine that loads them may lack the device.
    weights = {name: value.cpu() for name, value in result.network.state_dict().items()}
    torch.save({"metadata": metadata, "state_dict": weights}, content)
    return _write(directory / CHECKPOINT, content.getbuffer())


def write_curve(directory: pathlib.Path, losses: list[float]) -> pathlib.Path:
    """Plot the mean loss of each epoch as a self-contained SVG file."""
    import pygal  # Import late, because only a run with output needs pygal.

    chart = pygal.Line(
        title="Training on handwritten digits",
        x_title="epoch",
        y_title="mean cross entropy",
        logarithmic=True,
        show_legend=False,
        x_labels=range(1, len(losses) + 1),
        js=(),
    )
    chart.add("loss", losses)
    return _write(directory / CURVE, memoryview(chart.render()))


def _write(path: pathlib.Path, content: memoryview) -> pathlib.Path:
    """Write `content` to `path` atomically. Raises OutputError if this fails."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = pathlib.Path(name)
        try:
            with open(handle, "wb") as file:
                file.write(content)
            temporary.chmod(0o666 & ~_umask())  # mkstemp creates files with mode 0600.
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written: {error.strerror}. Make room, or give another --output."
        ) from error
    return path


def _umask() -> int:
    # The only way to read the umask is to set it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
