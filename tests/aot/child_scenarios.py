# SPDX-License-Identifier: Apache-2.0
"""Functions that child_test.py runs in a child process, which cannot import the test itself."""

from __future__ import annotations

import os
import time
from collections.abc import Callable


def serve(prefix: str) -> Callable[[str], str]:
    def answer(question: str) -> str:
        if question == "abort":
            os.abort()
        if question == "exit":
            os._exit(3)
        if question == "spin":
            while True:
                pass
        if question == "sleep":
            time.sleep(600)
        if question == "raise":
            raise ValueError("from the child")
        return f"{prefix} {question} {os.getpid()}"

    return answer


def fail() -> Callable[[str], str]:
    os._exit(4)
