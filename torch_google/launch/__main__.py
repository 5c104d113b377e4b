# SPDX-License-Identifier: Apache-2.0
"""The main module for PAR_MAIN=torch_google.launch."""

from torch_google.launch.command import main

if __name__ == "__main__":
    main()
