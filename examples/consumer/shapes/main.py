# SPDX-License-Identifier: Apache-2.0
"""Prints the shape of a picture's patches on the device tpu."""

import torch

from shapes.patches import patches


def main() -> None:
    rows = patches(torch.zeros(1, 8, 8, device="tpu"), size=2)
    print(f"{rows.shape} on {rows.device}")


if __name__ == "__main__":
    main()
