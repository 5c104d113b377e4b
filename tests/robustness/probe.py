# SPDX-License-Identifier: Apache-2.0
"""A small program for tests to start. It loads one native library and prints its state.

With the argument "wait", it waits for a line on stdin, then imports another module. With "spawn",
it starts a child process with the `spawn` start method.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from numpy._core import _multiarray_umath


def hello() -> None:
    """Print the arguments. PAR_MAIN=tests.robustness.probe:hello makes this the entry point."""
    print("hello", sys.argv[1:])


def fail() -> None:
    raise ValueError("no")


def main() -> None:
    if sys.argv[1:] == ["wait"]:
        print("waiting", flush=True)
        sys.stdin.readline()
        import csv

        print(csv.__name__)
        return
    if sys.argv[1:] == ["spawn"]:
        import multiprocessing

        child = multiprocessing.get_context("spawn").Process(target=hello)
        child.start()
        child.join()
        sys.exit(child.exitcode)
    state = {
        "argv": sys.argv[1:],
        "file": __file__,
        "library": _multiarray_umath.__file__,
        "sum": int(np.arange(10).sum()),
    }
    print(json.dumps(state))


if __name__ == "__main__":
    main()
