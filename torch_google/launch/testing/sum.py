# SPDX-License-Identifier: Apache-2.0
"""Adds the ranks of all processes, and prints the sum and the process's surroundings as JSON."""

from __future__ import annotations

import json
import os
import sys

import torch
from torch import distributed


def main() -> None:
    distributed.init_process_group("gloo")
    value = torch.tensor([float(distributed.get_rank() + 1)])
    distributed.all_reduce(value)
    row = {
        "arguments": sys.argv[1:],
        "doors": sorted(name for name in os.environ if name.startswith("PAR_")),
        "rank": distributed.get_rank(),
        "sum": value.item(),
    }
    # One write, so that the lines of several processes do not mix.
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
