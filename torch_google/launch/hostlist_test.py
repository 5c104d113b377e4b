# SPDX-License-Identifier: Apache-2.0
"""Test the expansion of Slurm's host lists.

The examples are the output of `scontrol show hostlist`.
"""

from __future__ import annotations

import pytest

from torch_google.launch.hostlist import hosts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n1", ["n1"]),
        ("n1,m2", ["n1", "m2"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-10,12]", ["n08", "n09", "n10", "n12"]),
        ("n[1,3]-ib,m7", ["n1-ib", "n3-ib", "m7"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("gpu-a[001-002].example,b", ["gpu-a001.example", "gpu-a002.example", "b"]),
    ],
)
def test_hosts(text: str, expected: list[str]) -> None:
    assert hosts(text) == expected


@pytest.mark.parametrize(
    "text", ["", ",", "n[1-3", "n1-3]", "n[]", "n[a-b]", "n[3-1]", "n[1-9999999]", "n[1-2-3]"]
)
def test_mistakes_are_one_line(text: str) -> None:
    with pytest.raises(ValueError, match="host list") as caught:
        hosts(text)
    assert "\n" not in str(caught.value)
