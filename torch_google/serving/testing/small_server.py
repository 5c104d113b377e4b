# SPDX-License-Identifier: Apache-2.0
"""A server whose requests contain commands for the worker.

It does not import torch, so it starts fast.

The input `x` is a pair of numbers: an argument, and EXIT, FAIL, SLEEP, STOP, WAIT or 0. For SLEEP,
the argument is the number of seconds to sleep. WAIT waits for a file in the directory --gates, and
the argument is the file's name. With --hang, one of the API's hooks never returns. Before a hook
hangs, it reports that on stderr.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from fastapi import Request
from litserve import LitAPI

from torch_google import serving

EXIT, FAIL, SLEEP, STOP, WAIT = 1, 2, 3, 4, 5
EXIT_CODE = 3
HANGS = ("setup", "health", "authorize")
_FOREVER = 1e6  # seconds


class SmallAPI(LitAPI):
    """A LitAPI that returns the worker's process id and the size of the batch."""

    gates = Path()

    def setup(self, device: str) -> None:
        if device == "broken":
            raise ValueError("the weights are missing")
        if device == "setup":
            _hang("setup")
        spec = serving.TensorSpec.of("x", "float32", (2,))
        self.signature = serving.Signature((spec,), ("pid", "size"))

    def batch(self, inputs: list[Any]) -> list[Any]:
        return inputs

    def predict(self, x: Any) -> Any:
        if isinstance(x, dict):  # LitServe passes single inputs if the batch size is 1
            return self.predict([x])[0]
        for row in x:
            self._delay(*row["x"])
        commands = [int(row["x"][1]) for row in x]
        if EXIT in commands:
            os._exit(EXIT_CODE)
        if STOP in commands:
            _say_hang("predict")
            os.kill(os.getpid(), signal.SIGSTOP)
        if FAIL in commands:
            raise ArithmeticError("no result for this input")
        return [{"pid": os.getpid(), "size": len(x)}] * len(x)

    def unbatch(self, output: list[Any]) -> list[Any]:
        return output

    def _delay(self, argument: float, command: float) -> None:
        if command == SLEEP:
            time.sleep(float(argument))
        while command == WAIT and not (self.gates / str(int(argument))).exists():
            time.sleep(0.01)


class HealthHangsAPI(SmallAPI):
    """An API whose health check blocks the event loop, except on its first call."""

    checks = 0

    def health(self) -> bool:
        self.checks += 1
        if self.checks > 1:
            _hang("health")
        return True


class AuthorizeHangsAPI(SmallAPI):
    """An API whose `authorize` hook hangs if a request has the header X-Hang."""

    def authorize(self, request: Request) -> None:
        if "x-hang" in request.headers:
            _hang("authorize")


def _hang(hook: str) -> None:
    _say_hang(hook)
    time.sleep(_FOREVER)


def _say_hang(hook: str) -> None:
    os.write(2, f"{hook} hangs\n".encode())


_APIS = {"health": HealthHangsAPI, "authorize": AuthorizeHangsAPI}


def main() -> int:
    """Serve until SIGTERM or SIGINT."""
    logging.basicConfig(level=logging.INFO)
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--hang", choices=HANGS)
    parser.add_argument("--gates", type=Path, default=Path())
    for field in dataclasses.fields(serving.Limits):
        kind = int if isinstance(field.default, int) else float
        parser.add_argument(f"--{field.name}", type=kind, default=field.default)
    options = vars(parser.parse_args())
    workers, device, hang = (options.pop(name) for name in ("workers", "device", "hang"))
    gates = options.pop("gates")
    limits = serving.Limits(**options)
    api = _APIS.get(hang, SmallAPI)(max_batch_size=limits.batch)
    api.gates = gates
    device = "setup" if hang == "setup" else device
    try:
        serving.Server(api, device=device, workers=workers, limits=limits).run(port=0)
    except serving.ServingError as error:
        print(f"small_server: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
