# SPDX-License-Identifier: Apache-2.0
"""Deselect test cases that run only with `--config=full`.

All cases marked with `@pytest.mark.full` are deselected. Of each test function's other cases, one
out of every `sample` is kept (`sample` is an attribute of par_test and par_tests). Each CI run runs
some of the targets with the tag `full` or `budget` in full.
"""

from __future__ import annotations

import collections
import os
import zlib

import pytest

from tools.par.testing import budget


class Selection:
    """A pytest plugin that deselects cases, unless the run is full or `--test_filter` is set.

    It raises UsageError instead if no full run includes the target, because the deselected cases
    would never run.
    """

    def __init__(self, sample: int = 1, *, in_full_run: bool = True) -> None:
        self._sample = sample
        self._in_full_run = in_full_run

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", "full: only --config=full runs the case")

    # Run before _Sharding, so that only the selected cases are divided among the shards.
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        if budget.is_full() or os.environ.get("TESTBRIDGE_TEST_ONLY"):
            return
        kept = [item for item in items if item.get_closest_marker("full") is None]
        kept = _sampled(kept, self._sample)
        if len(kept) < len(items):
            if not self._in_full_run:
                raise pytest.UsageError(
                    f"{len(items) - len(kept)} cases run only with --config=full, and no full run "
                    'has this target: add tags = ["budget"] to it'
                )
            ids = {item.nodeid for item in kept}
            config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in ids])
            items[:] = kept


def _sampled(items: list[pytest.Item], sample: int) -> list[pytest.Item]:
    """Return one in every `sample` cases of each test function, rounded up, in original order.

    The selection depends only on the cases' names, so it is the same on every machine.
    """
    functions = collections.defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item.nodeid)
    kept = set[str]()
    for ids in functions.values():
        ids.sort(key=lambda nodeid: zlib.crc32(nodeid.encode()))
        kept.update(ids[: -(-len(ids) // sample)])
    return [item for item in items if item.nodeid in kept]
