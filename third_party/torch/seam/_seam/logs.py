# SPDX-License-Identifier: Apache-2.0
"""The destinations of torch's logs and traces, whose paths need not be local files."""

import logging

from torch._seam import Hook


def _file_handler(path: str) -> logging.Handler:
    """Return the handler that appends a log to `path`."""
    return logging.FileHandler(path)


def _trace_directory(path: str) -> str:
    """Return the local directory that gets the traces meant for `path`."""
    return path


file_handler = Hook(_file_handler)
trace_directory = Hook(_trace_directory)
