# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that selects the device and the tests of a suite, and kills hung tests.

`child.py` passes an instance to pytest.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import json
import random
from collections.abc import Collection, Generator
from dataclasses import dataclass

import numpy
import pytest
import torch

from tests.ecosystem.suites.catalogue import Suite
from tests.fbcode import recording


@dataclass(frozen=True)
class Run:
    """The part of a suite that one process runs, as the parent process describes it in JSON.

    `suites` is the path of suites.json, `suite` the suite's name, and `tree` the folder of its
    sources. If `only` is not None, it lists the keys of the tests to run. `batch` limits the number
    of tests, because compiled programs are never freed.
    """

    suites: str
    suite: str
    device: str
    tree: str
    journal: str
    batch: int
    seconds: float
    only: list[list[str]] | None = None

    def json(self) -> str:
        return json.dumps(dataclasses.asdict(self))


class Device:
    """A pytest plugin that runs the part of a suite that a `Run` describes."""

    def __init__(self, run: Run, suite: Suite) -> None:
        self._run = run
        self._suite = suite
        self.is_last = False
        """Whether no test remains for another process."""
        self._only: Collection[tuple[str, ...]] | None = None
        if run.only is not None:
            self._only = {tuple(key) for key in run.only}

    def pytest_configure(self) -> None:
        if self._suite.default_device and self._run.device != "cpu":
            torch.set_default_device(self._run.device)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        # recording.py has already removed the tests that have an outcome.
        remaining = [item for item in items if self._is_selected(item)]
        self.is_last = len(remaining) <= self._run.batch
        chosen = set(remaining[: self._run.batch])
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = remaining[: self._run.batch]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        # Seed each test, because some depend on the random state that earlier tests left behind.
        for seed in (torch.manual_seed, random.seed, numpy.random.seed):
            seed(0)
        # faulthandler can terminate a process even if its main thread never returns to Python.
        faulthandler.dump_traceback_later(self._run.seconds, exit=True)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _is_selected(self, item: pytest.Item) -> bool:
        key = recording.key(item)
        if self._only is not None and key not in self._only:
            return False
        return self._suite.includes("::".join(key))
