# SPDX-License-Identifier: Apache-2.0
"""What a run leaves behind: a checkpoint and a picture of the loss, each whole or absent."""

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
    """The output directory cannot be used; the message is one line for its owner."""


def prepare(directory: pathlib.Path) -> None:
    """Creates `directory` and proves that it takes files. Raises `OutputError`.

    Called before training: an hour of work must not end in "permission denied".
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
    """Saves the weights with how they came about; `torch.load(weights_only=True)` reads it."""
    metadata = {
        **dataclasses.asdict(options),
        "accuracy": result.accuracy,
        "data": data,
        "losses": result.losses,
        "torch": str(torch.__version__),
    }
    content = io.BytesIO()
    # On the CPU, which every reader has.
    weights = {name: value.cpu() for name, value in result.network.state_dict().items()}
    torch.save({"metadata": metadata, "state_dict": weights}, content)
    return _write(directory / CHECKPOINT, content.getbuffer())


def write_curve(directory: pathlib.Path, losses: list[float]) -> pathlib.Path:
    """Draws the mean loss of each epoch as an SVG picture, which refers to no other file."""
    import pygal  # Here, not above: a run without output needs no charts.

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
    """Puts `content` at `path` whole, or leaves what was there. Raises `OutputError`."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = pathlib.Path(name)
        try:
            with open(handle, "wb") as file:
                file.write(content)
            temporary.chmod(0o666 & ~_umask())  # mkstemp's 0600 is for secrets.
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written: {error.strerror}. Make room, or give another --output."
        ) from error
    return path


def _umask() -> int:
    # The only way to read it is to set it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
