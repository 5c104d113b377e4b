# SPDX-License-Identifier: Apache-2.0
"""Modes can be set for a thread, for the process and in a block."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from torch_google.tpu import _C


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    torch.tpu.set_thread_eager_mode(None)
    torch.tpu.set_eager_mode("strict")


def _elsewhere() -> list[str]:
    modes: list[str] = []
    thread = threading.Thread(target=lambda: modes.append(torch.tpu.get_eager_mode()))
    thread.start()
    thread.join()
    return modes


def test_a_thread_has_its_own_until_it_takes_that_of_the_process() -> None:
    torch.tpu.set_thread_eager_mode("debug")
    assert (torch.tpu.get_eager_mode(), _elsewhere()) == ("debug", ["strict"])
    torch.tpu.set_eager_mode("fused")
    assert (torch.tpu.get_eager_mode(), _elsewhere()) == ("debug", ["fused"])
    torch.tpu.set_thread_eager_mode(None)
    assert torch.tpu.get_eager_mode() == "fused"
    torch.tpu.set_thread_eager_mode("strict")
    assert torch.tpu.get_eager_mode() == "strict"


def test_operators_and_backward_passes_run_in_it() -> None:
    x = torch.ones(3, device="tpu", requires_grad=True)
    modes: list[str] = []
    y = x * 2
    y.register_hook(lambda _: modes.append(torch.tpu.get_eager_mode()))
    torch.tpu.set_thread_eager_mode("debug")
    with pytest.raises(IndexError, match="index 3 is out of range"):
        x.detach()[torch.tensor([3]).to("tpu")]
    y.sum().backward()
    torch.tpu.set_thread_eager_mode(None)
    assert modes == ["debug"]
    x.detach()[torch.tensor([3]).to("tpu")]  # the index is clamped, without an error


def _fail() -> None:
    with torch.tpu.eager_mode("debug"):
        with torch.tpu.eager_mode("strict"):
            inner = torch.tpu.get_eager_mode()
        assert torch.tpu.get_eager_mode() == "debug"
        raise KeyError(inner)


def test_blocks_nest_in_it_and_give_it_back() -> None:
    torch.tpu.set_thread_eager_mode("fused")
    with pytest.raises(KeyError, match="strict"):
        _fail()
    assert torch.tpu.get_eager_mode() == "fused"
    with torch.tpu.eager_mode("debug"):
        torch.tpu.set_thread_eager_mode("strict")
        assert torch.tpu.get_eager_mode() == "strict"
    assert torch.tpu.get_eager_mode() == "fused"
    with torch.tpu.eager_mode("debug"):
        torch.tpu.set_thread_eager_mode(None)
        assert torch.tpu.get_eager_mode() == "strict"
    assert torch.tpu.get_eager_mode() == "fused"


def test_what_is_no_mode_changes_nothing() -> None:
    torch.tpu.set_thread_eager_mode("fused")
    with pytest.raises(ValueError, match="no eager mode 'fast'. Use one of: strict, debug, fused"):
        torch.tpu.set_thread_eager_mode("fast")
    assert torch.tpu.get_eager_mode() == "fused"
    torch.tpu.set_thread_eager_mode(None)
    assert _C.thread_mode() is None
