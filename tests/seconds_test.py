# SPDX-License-Identifier: Apache-2.0
import pathlib

from tools.presubmit import seconds

_LIMIT = 60
_TABLE = seconds.read(pathlib.Path(__file__).with_name("seconds.json"))


def test_no_part_of_the_default_run_takes_more_than_a_minute_of_cpu_time() -> None:
    slow = {
        label: cost.longest
        for label, cost in _TABLE[seconds.DEFAULT].items()
        if cost.longest > _LIMIT
    }
    assert not slow, "divide them into targets, or give them a smaller budget or the tag full"


def test_the_table_has_the_default_run() -> None:
    assert len(_TABLE[seconds.DEFAULT]) > 50
