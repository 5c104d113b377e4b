# SPDX-License-Identifier: Apache-2.0
"""Train a small convolutional network on handwritten digits.

The digits are packed into this program; --data=PATH trains on your own file instead. The program
writes checkpoint.pt and loss.svg to --output, and no other files.
"""

from __future__ import annotations

import os
import pathlib
import sys
import threading
import time
from collections.abc import Sequence

from absl import app, flags
from torch import distributed
from tqdm import tqdm

from examples import digits, output, training
from torch_google import flags as google_flags

_EPOCHS = flags.DEFINE_integer(
    "epochs", 20, "How many times to go over the training digits.", lower_bound=1
)
_BATCH_SIZE = flags.DEFINE_integer(
    "batch_size", 32, "Digits per step of the optimizer.", lower_bound=1
)
_LEARNING_RATE = flags.DEFINE_float(
    "learning_rate", 1e-3, "Step size of the Adam optimizer.", lower_bound=0.0
)
_SEED = flags.DEFINE_integer(
    "seed", 0, "Determines the split, the initial weights and the order of digits.", lower_bound=0
)
_DEVICE = flags.DEFINE_string(
    "device", "cpu", "Device to compute on: cpu, tpu, or another one that torch knows."
)
_MODE = flags.DEFINE_enum(
    "mode",
    None,
    training.MODES,
    "How --device=tpu executes operators: one by one (strict), in larger programs (fused), or "
    "waiting for each (debug). On any device, compile uses torch.compile for the network.",
)
_DATA = flags.DEFINE_string(
    "data",
    None,
    "A CSV or gzipped CSV file to train on in place of the packed digits: per line 64 pixels "
    "(0 to 16, row by row) and the label (0 to 9).",
)
_OUTPUT = flags.DEFINE_string(
    "output",
    "train_output",
    "Directory for the checkpoint and the loss curve; empty: write nothing.",
)


def main(argv: Sequence[str]) -> int:
    if len(argv) > 1:
        return _fail(f"found the argument {argv[1]!r}, expected flags only. See --help.")
    if "WORLD_SIZE" in os.environ:
        # torchrun has set WORLD_SIZE, so this process is one of several.
        distributed.init_process_group(distributed.get_default_backend_for_device(_DEVICE.value))
    try:
        _run()
    except (digits.DataError, output.OutputError, training.TrainingError) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return _fail("interrupted; nothing half-written is left.", status=130)
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()
    return 0


def _run() -> None:
    options = training.Options(
        epochs=_EPOCHS.value,
        batch_size=_BATCH_SIZE.value,
        learning_rate=_LEARNING_RATE.value,
        seed=_SEED.value,
        device=_DEVICE.value,
        mode=_MODE.value,
    )
    origin = _DATA.value or "packed with the program"
    is_first = not distributed.is_initialized() or distributed.get_rank() == 0
    directory = _from_here(_OUTPUT.value) if _OUTPUT.value and is_first else None
    training.usable_device(options.device)  # Check the device before writing any file.
    if directory:
        output.prepare(directory)
    data = digits.read(_from_here(_DATA.value) if _DATA.value else digits.packed())
    if is_first:
        print(f"{len(data)} digits, {origin}")

    start = time.monotonic()
    result = _train_with_progress(data, options, show=is_first)
    if not is_first:
        return
    print(
        f"test accuracy {result.accuracy:.4f} after {options.epochs} epochs "
        f"on {options.device} in {time.monotonic() - start:.1f} s"
    )
    if directory:
        checkpoint = output.write_checkpoint(directory, result, options, data=origin)
        print(f"checkpoint in {checkpoint}")
        print(f"loss curve in {output.write_curve(directory, result.losses)}")


def _train_with_progress(
    data: digits.Digits, options: training.Options, *, show: bool
) -> training.Result:
    # tqdm's default lock creates a semaphore in /dev/shm to synchronize processes, which a single
    # process does not need. With disable=None, tqdm shows no bar if stderr is not a terminal.
    tqdm.set_lock(threading.RLock())
    with tqdm(total=options.epochs, unit="epoch", disable=None if show else True) as bar:

        def on_epoch(epoch: int, loss: float) -> None:
            bar.set_postfix(loss=f"{loss:.4f}", refresh=False)
            bar.update()

        return training.train(data, options, on_epoch=on_epoch)


def _from_here(path: str) -> pathlib.Path:
    """Resolve `path` in the user's working directory, because `bazel run` uses a different one."""
    return pathlib.Path(os.environ.get("BUILD_WORKING_DIRECTORY", ""), path)


def _fail(message: str, *, status: int = 1) -> int:
    print(f"train: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    app.run(main, flags_parser=google_flags.parse)
