# SPDX-License-Identifier: Apache-2.0
"""Run one Bazel shard of the smoke test in this process.

The arguments are FILE=INDEX/SHARDS, one for each Bazel shard. A Bazel shard splits the tests in its
FILE into SHARDS parts, and runs only part INDEX.
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping, Sequence

from tests.upstream.files import limits, one_file


def main(argv: Sequence[str]) -> int:
    """Run this shard's file. Return pytest's exit status, or 1 if the arguments are invalid."""
    try:
        file = take(argv, os.environ)
    except ValueError as error:
        print(f"smoke: {error}", file=sys.stderr)
        return 1
    return one_file.main([file])


def take(argv: Sequence[str], environment: MutableMapping[str, str]) -> str:
    """Return this shard's file, and set the environment variable that selects a part of its tests.

    Raises a ValueError if the number of shards differs from the number of arguments.
    """
    index = int(environment.pop("TEST_SHARD_INDEX", "0"))
    shards = int(environment.pop("TEST_TOTAL_SHARDS", "1"))
    if shards != len(argv):
        raise ValueError(
            f"{shards} shards for {len(argv)} files. Run it with bazel test, which sets the shards of BUILD"
        )
    file, _, share = argv[index].partition("=")
    limits.share(share)
    environment[limits.SHARE] = share
    return file


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
