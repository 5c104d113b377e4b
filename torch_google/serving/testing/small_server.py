# SPDX-License-Identifier: Apache-2.0
"""A server whose requests tell the worker what to do. It does not need torch, so it starts fast.

The input `x` is a pair of numbers: the seconds to sleep, and EXIT, FAIL or 0.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import os
import sys
import time
from typing import Any

from litserve import LitAPI

from torch_google import serving

EXIT, FAIL = 1, 2
EXIT_CODE = 3


class SmallAPI(LitAPI):
    """A LitAPI that returns the worker's process id and the size of the batch."""

    def setup(self, device: str) -> None:
        if device == "broken":
            raise ValueError("the weights are missing")
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
        if FAIL in commands:
            raise ArithmeticError("no result for this input")
        return [{"pid": os.getpid(), "size": len(x)}] * len(x)

    def unbatch(self, output: list[Any]) -> list[Any]:
        return output


def main() -> int:
    """Serve until SIGTERM or SIGINT."""
    logging.basicConfig(level=logging.INFO)
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    for field in dataclasses.fields(serving.Limits):
        kind = int if isinstance(field.default, int) else float
        parser.add_argument(f"--{field.name}", type=kind, default=field.default)
    options = vars(parser.parse_args())
    workers, device = options.pop("workers"), options.pop("device")
    limits = serving.Limits(**options)
    api = SmallAPI(max_batch_size=limits.batch)
    try:
        serving.Server(api, device=device, workers=workers, limits=limits).run(port=0)
    except serving.ServingError as error:
        print(f"small_server: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
