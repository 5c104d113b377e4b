# SPDX-License-Identifier: Apache-2.0
"""Support for multiprocess programs: children report failures and never outlive the parent."""

from torch_google.multiprocessing.elastic import launch
from torch_google.multiprocessing.main import handle_main, handle_test_main
from torch_google.multiprocessing.options import START_METHODS, define_flags
from torch_google.multiprocessing.process import Process, ProcessFailedError, spawn

__all__ = [
    "START_METHODS",
    "Process",
    "ProcessFailedError",
    "define_flags",
    "handle_main",
    "handle_test_main",
    "launch",
    "spawn",
]
