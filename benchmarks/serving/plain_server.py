# SPDX-License-Identifier: Apache-2.0
"""Serve the same network as examples/serve.py with LitServe's own server, for comparison.

python -m benchmarks.serving.plain_server CHECKPOINT PORT BATCH queue|zmq
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from litserve import LitAPI, LitServer

from examples import model


class DigitsAPI(LitAPI):
    """An API in the form that LitServe's manual recommends: LitServe itself batches the tensors."""

    def __init__(self, checkpoint: str, **options: Any) -> None:
        super().__init__(**options)
        self._checkpoint = checkpoint

    def setup(self, device: str) -> None:
        torch.set_num_threads(1)
        self._network = model.DigitNet().eval()
        state = torch.load(self._checkpoint, weights_only=True)
        self._network.load_state_dict(state["state_dict"])

    # LitServe passes parsed JSON only if `request` has no annotation.
    def decode_request(self, request, **kwargs):  # type: ignore[no-untyped-def]
        return torch.tensor(request["inputs"]["image"])

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            logits: torch.Tensor = self._network(x)
            return logits

    def encode_response(self, output: torch.Tensor) -> dict[str, Any]:
        return {"outputs": {"output": output.tolist()}}


def main(checkpoint: str, port: str, batch: str, transport: str) -> None:
    """Serve the network until a signal terminates the process."""
    # Without a timeout, LitServe busy-waits on its queue and occupies a core.
    api = DigitsAPI(checkpoint, max_batch_size=int(batch), batch_timeout=0.005)
    server = LitServer(api, accelerator="cpu", fast_queue=transport == "zmq")
    server.run(
        host="127.0.0.1",
        port=int(port),
        log_level="warning",
        generate_client_file=False,
        access_log=False,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
