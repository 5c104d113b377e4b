# SPDX-License-Identifier: Apache-2.0
"""torch's logging and tracing code calls hooks in torch._seam.

Importing torch does not remove the root logger's handlers.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch._logging import _internal
from torch._seam import logs


@pytest.fixture(autouse=True)
def _upstream_again() -> Iterator[None]:
    yield
    logs.file_handler.restore()
    logs.trace_directory.restore()
    _internal._init_logs()


def test_logs_go_where_the_seam_says(tmp_path: Path) -> None:
    asked = []

    def file_handler(path: str) -> logging.Handler:
        asked.append(path)
        return logging.FileHandler(tmp_path / "elsewhere.log")

    logs.file_handler.install(file_handler)
    _internal._init_logs("store://logs/torch.log")
    logging.getLogger("torch").warning("where to?")
    assert set(asked) == {"store://logs/torch.log"}
    assert "where to?" in (tmp_path / "elsewhere.log").read_text()


def test_dynamo_log_goes_where_the_seam_says(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo import config, utils

    asked = []

    def file_handler(path: str) -> logging.Handler:
        asked.append(path)
        return logging.NullHandler()

    logs.file_handler.install(file_handler)
    monkeypatch.setattr(config, "log_file_name", "store://dynamo.log")
    utils.setup_log_file().close()
    assert asked == ["store://dynamo.log"]


def test_traces_go_where_the_seam_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs.trace_directory.install(lambda path: os.path.join(tmp_path, path.partition("://")[2]))
    handler = _internal.LazyTraceHandler("store://traces")
    monkeypatch.setattr(handler, "format", lambda record: record.getMessage())
    handler.emit(logging.makeLogRecord({"msg": "traced", "metadata": {}, "payload": None}))
    handler.close()
    (trace,) = (tmp_path / "traces").iterdir()
    assert "traced" in trace.read_text()


def test_importing_torch_leaves_the_root_logger_alone() -> None:
    script = (
        "import logging, torch, torch.backends.xeon.run_cpu, torch.distributed.run; "
        "print(logging.root.handlers, logging.root.level)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"[] {logging.WARNING}\n"), done.stderr


def test_the_hooks_are_upstreams_until_replaced() -> None:
    assert logs.trace_directory("a/b") == "a/b"
    assert torch._seam.logs is logs
