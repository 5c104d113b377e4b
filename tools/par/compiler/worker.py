# SPDX-License-Identifier: Apache-2.0
"""A command as a process that stays: Bazel's persistent workers, with a line of JSON for each request."""

from __future__ import annotations

import contextlib
import io
import json
import traceback
from collections.abc import Callable
from typing import TextIO

FLAG = "--persistent_worker"
"""What Bazel adds to a command that is to stay."""


def serve(run: Callable[[list[str]], int], requests: TextIO, answers: TextIO) -> int:
    """Run a command for each request, until there are no more. Return 0.

    What it prints, or raises, belongs to the answer: the next request may fare better.
    """
    for line in requests:
        request = json.loads(line)
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                code = run(request["arguments"])
            except SystemExit as error:
                code = error.code if isinstance(error.code, int) else 1
            except Exception:  # noqa: BLE001 - Bazel shows it, as it would show a process's
                traceback.print_exc()
                code = 1
        answer = {
            "exitCode": code,
            "output": said.getvalue(),
            "requestId": request.get("requestId", 0),
        }
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return 0
