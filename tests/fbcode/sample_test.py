# SPDX-License-Identifier: Apache-2.0
"""Test that every entry of a table is in exactly one shard, the same one on every machine."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.fbcode.sample import VARIABLE, sampled


@dataclass(frozen=True)
class _Entry:
    name: str


_TABLE = [_Entry(f"entry{number}") for number in range(200)]


def test_every_entry_is_in_one_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = []
    for index in range(7):
        monkeypatch.setenv(VARIABLE, f"{index}/7")
        shard = sampled(_TABLE, shards=1)
        assert 10 < len(shard) < 50
        entries += shard
    assert sorted(entry.name for entry in entries) == sorted(entry.name for entry in _TABLE)


def test_a_shard_does_not_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    first = sampled(_TABLE, shards=20)
    assert [entry.name for entry in first] == [
        "entry6",
        "entry9",
        "entry28",
        "entry53",
        "entry71",
        "entry121",
        "entry144",
        "entry170",
        "entry171",
        "entry172",
        "entry177",
        "entry180",
    ]
    assert set(sampled([*_TABLE[::-1], _Entry("more")], shards=20)) >= set(first)


def test_the_environment_may_ask_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "0/1")
    assert sampled(_TABLE, shards=50) == _TABLE


def test_no_shard_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "4999/5000")
    assert sampled(_TABLE, shards=50) == _TABLE[:1]


@pytest.mark.parametrize("value", ["1", "7/7", "-1/7", "a/b", "/", "0/0"])
def test_what_is_no_shard(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(ValueError, match="FBCODE_SHARE: expected INDEX/SHARDS"):
        sampled(_TABLE, shards=2)
