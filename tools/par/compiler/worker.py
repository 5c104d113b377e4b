# SPDX-License-Identifier: Apache-2.0
"""Implement Bazel's persistent worker protocol with JSON requests, one per line."""

from __future__ import annotations

import contextlib
import io
import json
import traceback
from collections.abc import Callable
from typing import TextIO

FLAG = "--persistent_worker"
"""The flag that Bazel adds to start a command as a persistent worker."""


def serve(run: Callable[[list[str]], int], requests: TextIO, answers: TextIO) -> int:
    """Call `run` with the arguments of each request until the input ends. Return 0.

    The response contains the output of `run` and any traceback, so a failed request does not
    terminate the worker.
    """
    for line in requests:
        request = json.loads(line)
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            try:
                code = run(request["arguments"])
            except SystemExit as error:
                code = error.code if isinstance(error.code, int) else 1
            except Exception:  # noqa: BLE001 - Bazel shows it with the request's output
                traceback.print_exc()
                code = 1
        answer = {
            "exitCode": code,
            "output": output.getvalue(),
            "requestId": request.get("requestId", 0),
        }
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return 0
