# SPDX-License-Identifier: Apache-2.0
"""Where torch's logs and traces go when their path is more than a file of this machine."""

import logging

from torch._seam import Hook


def _file_handler(path: str) -> logging.Handler:
    """Return what appends a log to `path`."""
    return logging.FileHandler(path)


def _trace_directory(path: str) -> str:
    """Return the local directory that gets the traces meant for `path`."""
    return path


file_handler = Hook(_file_handler)
trace_directory = Hook(_trace_directory)
