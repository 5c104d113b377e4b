# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that selects a shard of a file's tests and kills hung tests.

It also enables torch's check of the default dtype in the files that use it.
"""

from __future__ import annotations

import faulthandler
import hashlib
import os
from collections.abc import Generator

import pytest

# The environment variable that selects a shard: `2/16` is the third of sixteen shards of a file's
# tests. If it is unset, all tests run.
SHARE = "UPSTREAM_SHARE"
# The timeout per test, in seconds. torch's longest test takes a minute on an idle core.
_SECONDS = 900
# Files whose `__main__` block enables a check of the default dtype. pytest does not run this block,
# so the plugin enables the check.
_CHECK_DEFAULT_DTYPE = frozenset(
    ("test_complex", "test_jit", "test_linalg", "test_nn", "test_tensor_creation_ops", "test_torch")
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if any(item.path.stem in _CHECK_DEFAULT_DTYPE for item in items):
        from torch.testing._internal.common_utils import TestCase

        TestCase._default_dtype_check_enabled = True
    index, shares = share(os.environ.get(SHARE) or "0/1")
    selected = [item for item in items if _number(item.nodeid) % shares == index]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(selected)])
    items[:] = selected


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    # faulthandler can terminate a process even if its main thread never returns to Python.
    faulthandler.dump_traceback_later(_SECONDS, exit=True)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def share(text: str) -> tuple[int, int]:
    """Parse INDEX/SHARDS; return both numbers. Raises a ValueError for any other text."""
    index, slash, shares = text.partition("/")
    if slash and index.isdecimal() and shares.isdecimal() and int(index) < int(shares):
        return int(index), int(shares)
    raise ValueError(f"{SHARE}: expected INDEX/SHARDS as in 0/16, found '{text}'")


def _number(name: str) -> int:
    # Use a hash of the name, so that a test is in the same shard in every run.
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
