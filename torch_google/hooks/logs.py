# SPDX-License-Identifier: Apache-2.0
"""Hooks for torch/_seam/logs.py, which write logs and traces to gfile paths."""

import logging


def install() -> None:
    """Install the hooks, which import their implementations on first call."""
    from torch._seam import logs

    logs.file_handler.install(_file_handler)
    logs.trace_directory.install(_trace_directory)


def _file_handler(path: str) -> logging.Handler:
    from torch._seam import logs

    if "://" not in path:
        return logs.file_handler.upstream(path)
    from torch_google.logging.log_files import remote_log

    return remote_log(path)


def _trace_directory(path: str) -> str:
    if "://" not in path:
        return path
    from torch_google.logging.traces import stage

    return stage(path)
