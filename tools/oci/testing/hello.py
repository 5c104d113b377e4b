# SPDX-License-Identifier: Apache-2.0
"""Print a description of the process and its container as JSON."""

from __future__ import annotations

import getpass
import json
import multiprocessing
import os
import socket
import sys

import numpy


def square(number: int) -> int:
    return number * number


def _writable(path: str) -> bool:
    return os.access(path, os.W_OK)


def main() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        squares = pool.map(square, [3])
    print(
        json.dumps(
            {
                "arguments": sys.argv[1:],
                "cache": os.environ.get("PAR_CACHE_DIR"),
                "file": __file__,
                "localhost": socket.gethostbyname("localhost"),
                "libraries": numpy._core._multiarray_umath.__file__,
                "shell": os.path.exists("/bin/sh"),
                "squares": squares,
                "sum": int(numpy.arange(10).sum()),
                "uid": os.getuid(),
                "user": getpass.getuser(),
                "writable": [path for path in ("/", "/app", "/cache", "/tmp") if _writable(path)],
            }
        )
    )


if __name__ == "__main__":
    main()
