# SPDX-License-Identifier: Apache-2.0
"""Each option takes effect, and invalid options are rejected."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_google.tpu.compile.options import MODES, Options, parse


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[None]:
    torch.tpu.set_compile_cache(str(tmp_path))
    yield
    torch.tpu.set_compile_cache(None)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_is_one_program(cache: None, mode: str) -> None:
    x = torch.rand(3, 3, device="tpu")
    torch.compile(lambda x: x @ x + 1, backend="tpu")(x)
    torch._dynamo.reset()
    torch.tpu.reset_metrics()
    torch.compile(lambda x: x @ x + 1, backend="tpu", mode=mode)(x)
    counts = torch.tpu.metrics()
    assert (counts.disk_hits, counts.compiles) == (1, 0)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"buckets": []}, "buckets="),
        ({"buckets": [8, 4]}, "buckets="),
        ({"buckets": [0, 4]}, "buckets="),
        ({"buckets": 8}, "buckets=8"),
        ({"donate": 1}, "donate=1. Use True or False"),
        ({"max_programs": 0}, "max_programs=0. Use a number of 1 or more"),
        ({"precision": "low"}, "precision='low'"),
        ({"depth": 1}, "no option depth"),
    ],
)
def test_what_is_refused(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        parse(None, options)


def test_a_mode_that_is_none() -> None:
    with pytest.raises(ValueError, match="no mode 'fastest'"):
        parse("fastest", None)


def test_what_is_not_said() -> None:
    assert parse(None, None) == Options(True, True, 64, None)
    assert parse(None, {"buckets": [2, 9]}).buckets == (2, 9)


def test_precision_is_part_of_a_program() -> None:
    x = torch.rand(4, 4, device="tpu")
    for precision in ("default", "highest"):
        torch._dynamo.reset()
        actual = torch.compile(lambda x: x @ x, backend="tpu", options={"precision": precision})(x)
        torch.testing.assert_close(actual.cpu(), x.cpu() @ x.cpu())
    assert torch.tpu.metrics().graphs["compile"] == 2
