# SPDX-License-Identifier: Apache-2.0
"""A shard selects its file, and removes Bazel's shard variables from the environment."""

from __future__ import annotations

import pytest

from tests.upstream.files import limits, smoke

_FILES = ("test_torch=0/1", "test_nn=1/4")


def test_a_shard_takes_its_file() -> None:
    environment = {"TEST_SHARD_INDEX": "1", "TEST_TOTAL_SHARDS": "2", "HOME": "/"}
    assert smoke.take(_FILES, environment) == "test_nn"
    assert environment == {limits.SHARE: "1/4", "HOME": "/"}


def test_there_is_a_shard_for_each_file(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="3 shards for 2 files"):
        smoke.take(_FILES, {"TEST_SHARD_INDEX": "1", "TEST_TOTAL_SHARDS": "3"})
    with pytest.raises(ValueError, match="expected INDEX/SHARDS as in 0/16, found '4/4'"):
        smoke.take(["test_nn=4/4"], {})
    assert smoke.main([*_FILES, *_FILES]) == 1
    assert "shards for 4 files" in capsys.readouterr().err
