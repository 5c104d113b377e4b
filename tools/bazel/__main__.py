# SPDX-License-Identifier: Apache-2.0
"""Set up Bazel. bazelw starts this as `python3 tools/bazel` if no launcher script exists yet."""

import sys
from pathlib import Path

# Python puts this directory first on sys.path, but imports are relative to the workspace root.
sys.path[0] = str(Path(__file__).resolve().parents[2])

from tools.bazel.bootstrap import main  # noqa: E402  (needs the line above)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
