# SPDX-License-Identifier: Apache-2.0
"""What bazelw starts, by the directory's name, when there is no launcher yet."""

import sys
from pathlib import Path

# Python put this directory here; modules are named from the workspace root.
sys.path[0] = str(Path(__file__).resolve().parents[2])

from tools.bazel.bootstrap import main  # noqa: E402  (needs the line above)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
