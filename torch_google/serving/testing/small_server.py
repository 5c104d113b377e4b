# SPDX-License-Identifier: Apache-2.0
"""A server whose requests tell the worker what to do. It does not need torch, so it starts fast.

The input `x` is a pair of numbers: the seconds to sleep, and EXIT, FAIL, STOP or 0. With --hang, a
hook of the API never returns.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import os
import signal
import sys
import time
from typing import Any

from fastapi import Request
from litserve import LitAPI

from torch_google import serving

EXIT, FAIL, STOP = 1, 2, 3
EXIT_CODE = 3
HANGS = ("setup", "health", "authorize")
_FOREVER = 1e6  # seconds


class SmallAPI(LitAPI):
    """A LitAPI that returns the worker's process id and the size of the batch."""

    def setup(self, device: str) -> None:
        if device == "broken":
            raise ValueError("the weights are missing")
        if device == "setup":
            time.sleep(_FOREVER)
        spec = serving.TensorSpec.of("x", "float32", (2,))
        self.signature = serving.Signature((spec,), ("pid", "size"))

    def batch(self, inputs: list[Any]) -> list[Any]:
        return inputs

    def predict(self, x: Any) -> Any:
        if isinstance(x, dict):  # LitServe passes single inputs if the batch size is 1
            return self.predict([x])[0]
        time.sleep(max(float(row["x"][0]) for row in x))
        commands = [int(row["x"][1]) for row in x]
        if EXIT in commands:
            os._exit(EXIT_CODE)
        if STOP in commands:
            os.kill(os.getpid(), signal.SIGSTOP)
        if FAIL in commands:
            raise ArithmeticError("no result for this input")
        return [{"pid": os.getpid(), "size": len(x)}] * len(x)

    def unbatch(self, output: list[Any]) -> list[Any]:
        return output


class HealthHangsAPI(SmallAPI):
    """An API whose health check blocks the event loop, except the first one."""

    checks = 0

    def health(self) -> bool:
        self.checks += 1
        if self.checks > 1:
            time.sleep(_FOREVER)
        return True


class AuthorizeHangsAPI(SmallAPI):
    """An API that never decides on a request with the header X-Hang."""

    def authorize(self, request: Request) -> None:
        if "x-hang" in request.headers:
            time.sleep(_FOREVER)


_APIS = {"health": HealthHangsAPI, "authorize": AuthorizeHangsAPI}


def main() -> int:
    """Serve until SIGTERM or SIGINT."""
    logging.basicConfig(level=logging.INFO)
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--hang", choices=HANGS)
    for field in dataclasses.fields(serving.Limits):
        kind = int if isinstance(field.default, int) else float
        parser.add_argument(f"--{field.name}", type=kind, default=field.default)
    options = vars(parser.parse_args())
    workers, device, hang = (options.pop(name) for name in ("workers", "device", "hang"))
    limits = serving.Limits(**options)
    api = _APIS.get(hang, SmallAPI)(max_batch_size=limits.batch)
    device = "setup" if hang == "setup" else device
    try:
        serving.Server(api, device=device, workers=workers, limits=limits).run(port=0)
    except serving.ServingError as error:
        print(f"small_server: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
