# SPDX-License-Identifier: Apache-2.0
"""The program that every packaging tool packs. It does little more than `import torch`."""

import torch


def main() -> None:
    print(torch.ones(2) + 1)


if __name__ == "__main__":
    main()
