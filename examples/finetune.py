# SPDX-License-Identifier: Apache-2.0
"""Train a small Llama on one text, then adapt it to another with LoRA.

This program contains both texts: the documentation of torch_google, and the Apache licence. With
--text=PATH, it adapts the model to your own text instead. It writes the adapter to the directory
--output, in peft's format.
"""

from __future__ import annotations

import os
import pathlib
import sys
import threading
import time
from collections.abc import Sequence

from absl import app, flags
from tqdm import tqdm

from examples import finetuning

_BASE_STEPS = flags.DEFINE_integer(
    "base_steps", 200, "Steps that train the whole model on the first text.", lower_bound=1
)
_STEPS = flags.DEFINE_integer(
    "steps", 100, "Steps that train the adapter on the second text.", lower_bound=1
)
_SEED = flags.DEFINE_integer("seed", 0, "Determines the initial weights.", lower_bound=0)
_DEVICE = flags.DEFINE_enum("device", "cpu", ("cpu", "tpu"), "Device to compute on.")
_TEXT = flags.DEFINE_string("text", None, "A file to adapt to, in place of the packed licence.")
_OUTPUT = flags.DEFINE_string(
    "output", "finetune_output", "Directory for the adapter; empty: write nothing."
)


def main(argv: Sequence[str]) -> int:
    if len(argv) > 1:
        return _fail(f"found the argument {argv[1]!r}, expected flags only. See --help.")
    try:
        _run()
    except finetuning.FinetuningError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return _fail("interrupted", status=130)
    return 0


def _run() -> None:
    options = finetuning.Options(_BASE_STEPS.value, _STEPS.value, _DEVICE.value, _SEED.value)
    source = _from_here(_TEXT.value) if _TEXT.value else finetuning.packed("licence.txt")
    first, second = finetuning.read(finetuning.packed("guide.txt")), finetuning.read(source)
    output = _from_here(_OUTPUT.value) if _OUTPUT.value else None
    if output:
        try:
            output.mkdir(parents=True, exist_ok=True)  # An error now saves the user a long wait.
        except OSError as error:
            raise finetuning.FinetuningError(
                f"--output={_OUTPUT.value}: {error.strerror}. Give a writable directory."
            ) from error
    start = time.monotonic()
    with _Bar() as bar:
        result = finetuning.finetune(first, second, options, bar.update)
    print(
        f"trained {result.trained:,} of {result.parameters:,} parameters on {result.device} "
        f"in {time.monotonic() - start:.1f} s, {result.tokens_per_second:,.0f} tokens/s"
    )
    print(f"loss on unseen text {result.base_loss:.3f}, with the adapter {result.loss:.3f}")
    if output:
        result.model.save_pretrained(os.fspath(output))
        print(f"adapter in {output}")


class _Bar:
    """A progress bar for each phase of the training; none if stderr is not a terminal."""

    def __init__(self) -> None:
        self._bar: tqdm[None] | None = None
        self._phase = ""

    def __enter__(self) -> _Bar:
        # tqdm's default lock creates a semaphore in /dev/shm to synchronize processes, which a
        # single process does not need.
        tqdm.set_lock(threading.RLock())
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def update(self, phase: str, step: int, steps: int) -> None:
        if phase != self._phase:
            self.__exit__()
            self._bar = tqdm(total=steps, desc=phase, unit="step", disable=None)
            self._phase = phase
        assert self._bar is not None
        self._bar.update(step - self._bar.n)


def _from_here(path: str) -> pathlib.Path:
    """Resolve `path` in the user's working directory, because `bazel run` uses a different one."""
    return pathlib.Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."), path)


def _fail(message: str, status: int = 1) -> int:
    print(f"finetune: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    app.run(main)
