# SPDX-License-Identifier: Apache-2.0
"""Test the choice of the transport. `../collectives/transport_test.py` starts real processes."""

from __future__ import annotations

import pytest

from torch_google.tpu.runtime import processes


@pytest.mark.parametrize(
    ("variable", "platform", "expected"),
    [
        (None, "cpu", False),
        ("", "cpu", False),
        (None, "tpu", True),
        (None, "gpu", True),
        ("xla", "cpu", True),
        ("host", "tpu", False),
    ],
)
def test_the_transport(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, platform: str, expected: bool
) -> None:
    monkeypatch.delenv("TORCH_TPU_COLLECTIVES", raising=False)
    if variable is not None:
        monkeypatch.setenv("TORCH_TPU_COLLECTIVES", variable)
    assert processes.uses_xla(platform) is expected


def test_an_unknown_transport(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_TPU_COLLECTIVES", "nccl")
    with pytest.raises(ValueError, match="tpu: TORCH_TPU_COLLECTIVES=nccl; use one of host, xla"):
        processes.uses_xla("cpu")


def test_a_single_process_joins_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "TORCH_TPU_COLLECTIVES": "xla",
        "RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "1",
    }.items():
        monkeypatch.setenv(name, value)
    processes.join()
