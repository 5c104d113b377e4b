# SPDX-License-Identifier: Apache-2.0
"""Runs the estimator from the command line.

For example: `python -m torch_google.tpu.estimate package.module:function --topology=v5e:4x4`
"""

import sys

from torch_google.tpu.estimate.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
