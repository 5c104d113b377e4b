# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: select a share of a file's tests, end hanging ones, run upstream's checks."""

from __future__ import annotations

import faulthandler
import hashlib
import os
from collections.abc import Generator

import pytest

# `2/16` takes the third of sixteen shares of a file's tests; without it, all.
SHARE = "UPSTREAM_SHARE"
# Of the clock, for one test: upstream's longest takes a minute on an idle core.
_SECONDS = 900
# Files that ask for it in their last lines, which only a program of their own would run.
_CHECK_DEFAULT_DTYPE = frozenset(
    ("test_complex", "test_jit", "test_linalg", "test_nn", "test_tensor_creation_ops", "test_torch")
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if any(item.path.stem in _CHECK_DEFAULT_DTYPE for item in items):
        from torch.testing._internal.common_utils import TestCase

        TestCase._default_dtype_check_enabled = True
    index, shares = share(os.environ.get(SHARE) or "0/1")
    left = [item for item in items if _number(item.nodeid) % shares == index]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(left)])
    items[:] = left


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    # It ends the process also where the main thread never comes back to Python.
    faulthandler.dump_traceback_later(_SECONDS, exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def share(words: str) -> tuple[int, int]:
    """Return which share of how many. Raises ValueError for other words than INDEX/SHARES."""
    index, slash, shares = words.partition("/")
    if slash and index.isdecimal() and shares.isdecimal() and int(index) < int(shares):
        return int(index), int(shares)
    raise ValueError(f"{SHARE}: expected INDEX/SHARES as in 0/16, found '{words}'")


def _number(name: str) -> int:
    # By name alone, so that a test keeps its share whatever was run already.
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
