# SPDX-License-Identifier: Apache-2.0
"""Measure torch.distributed on the `tpu` device, relative to gloo on CPU tensors; see README.md."""

from __future__ import annotations

import sys

from benchmarks.collectives.ranks import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
