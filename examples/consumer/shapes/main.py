# SPDX-License-Identifier: Apache-2.0
"""Split an image into patches on the `tpu` device, and print the shape of the result."""

import torch

from shapes.patches import patches


def main() -> None:
    rows = patches(torch.zeros(1, 8, 8, device="tpu"), size=2)
    print(f"{rows.shape} on {rows.device}")


if __name__ == "__main__":
    main()
