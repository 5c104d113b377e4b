# SPDX-License-Identifier: Apache-2.0
"""The main module that a PAR runs if PAR_MAIN=torch_google.launch is set."""

from torch_google.launch.command import main

if __name__ == "__main__":
    main()
