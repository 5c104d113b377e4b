# SPDX-License-Identifier: Apache-2.0
"""Run one shard of the smoke set in this process. Arguments, one per shard: FILE=INDEX/SHARES.

A shard of `bazel test` is one of torch's files, or a share of one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping, Sequence

from tests.upstream.files import limits, one_file


def main(argv: Sequence[str]) -> int:
    """Return pytest's exit status, or 1 if the arguments do not match the number of shards."""
    try:
        file = take(argv, os.environ)
    except ValueError as error:
        print(f"smoke: {error}", file=sys.stderr)
        return 1
    return one_file.main([file])


def take(argv: Sequence[str], environment: MutableMapping[str, str]) -> str:
    """Return the file of this shard, and set its share in the environment.

    Raises ValueError unless there are as many shards as arguments.
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
