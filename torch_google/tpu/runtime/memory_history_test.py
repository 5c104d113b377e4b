# SPDX-License-Identifier: Apache-2.0
"""Test the allocation history, its format, and the HTML page that shows it."""

from __future__ import annotations

import gc
import pickle
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.cuda import _memory_viz

from torch_google.tpu import _C
from torch_google.tpu.runtime import memory_replay

MODES = sorted(_C.Mode.__members__)

# User code in a separate file. The frames of this test would count as internal, because the test
# is part of torch_google.tpu.
_USER = """
def ones(size):
    return torch.ones(size, device="tpu")

def train(network, optimizer, x):
    loss = network(x).square().sum()
    loss.backward()
    optimizer.step()
    return loss
"""


@pytest.fixture
def user() -> dict[str, Callable[..., Any]]:
    names: dict[str, Any] = {"torch": torch}
    exec(compile(_USER, "/home/user/train.py", "exec"), names)
    return names


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    gc.collect()
    yield
    torch.tpu.memory._record_memory_history(None)


def _record(**options: Any) -> None:
    torch.tpu.memory._record_memory_history(**options)


@pytest.mark.parametrize("mode", MODES)
def test_allocations_have_stacks(mode: Any, user: dict[str, Callable[..., Any]]) -> None:
    with torch.tpu.eager_mode(mode):
        user["ones"](3)
        _record()
        kept = user["ones"](1000)
        freed = user["ones"](500)
        address = freed.untyped_storage().data_ptr()
        del freed
    snapshot = torch.tpu.memory._snapshot()
    (events, *_) = snapshot["device_traces"]
    large = [event for event in events if event["size"] in (4000, 2000)]
    assert [(event["action"], event["size"]) for event in large] == [
        ("alloc", 4000),
        ("alloc", 2000),
        ("free_completed", 2000),
    ]
    assert large[1]["addr"] == large[2]["addr"] == address
    assert large[0]["time_us"] <= large[1]["time_us"] <= large[2]["time_us"]
    for event in large:
        line = memory_replay.user_line(event["frames"])
        assert line == "/home/user/train.py:3 ones"
    blocks = {
        block["address"]: block for segment in snapshot["segments"] for block in segment["blocks"]
    }
    assert blocks[kept.untyped_storage().data_ptr()]["size"] == 4000
    assert blocks[kept.untyped_storage().data_ptr()]["frames"] == large[0]["frames"]
    assert address not in blocks


def test_a_storage_that_grows() -> None:
    _record()
    x = torch.zeros(8, device="tpu")
    x.resize_(4000)
    (events, *_) = torch.tpu.memory._snapshot()["device_traces"]
    assert [
        (event["action"], event["size"]) for event in events if event["size"] in (32, 16000)
    ] == [
        ("alloc", 32),
        ("free_completed", 32),
        ("alloc", 16000),
    ]


def test_storages_from_before_the_recording_are_listed() -> None:
    x = torch.ones(777, device="tpu")
    for options in ({}, {"enabled": "state"}):
        _record(**options)
        (segment,) = (
            each for each in torch.tpu.memory._snapshot()["segments"] if each["total_size"] == 3108
        )
        assert segment["address"] == x.untyped_storage().data_ptr()
        assert segment["blocks"][0]["frames"] == []


def test_the_number_of_entries_and_stacks_is_limited() -> None:
    _record(max_entries=3, context=None)
    kept = [torch.ones(n, device="tpu") for n in range(1, 9)]
    (events, *_) = torch.tpu.memory._snapshot()["device_traces"]
    assert len(events) == 3
    assert not any(event["frames"] for event in events)
    del kept


def test_no_history_is_recorded_by_default() -> None:
    x = torch.ones(10, device="tpu")
    _record()
    _record(enabled=None)
    y = torch.ones(10, device="tpu")
    assert not _C.is_memory_recorded()
    assert torch.tpu.memory._snapshot()["device_traces"][0] == []
    del x, y


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"enabled": "some"}, "use None, 'state' or 'all'"),
        ({"stacks": "c++"}, "use 'python' or 'all'"),
        ({"max_entries": 0}, "max_entries=0; use 1 or more"),
    ],
)
def test_an_unknown_option(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _record(**options)


def test_torch_s_own_viewer_reads_a_snapshot(tmp_path: Path) -> None:
    _record()
    kept = torch.ones(1234, device="tpu")
    path = tmp_path / "snapshot.pickle"
    torch.tpu.memory._dump_snapshot(str(path))
    snapshot = pickle.loads(path.read_bytes())
    assert "4.8KiB" in _memory_viz.segsum(snapshot)
    assert "= seg_0[0:4.8KiB]" in _memory_viz.trace(snapshot)
    assert "MemoryViz" in _memory_viz.trace_plot(snapshot)
    del kept


class _Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return y


def _rows(page: str, title: str) -> list[str]:
    table = page.partition(f"<h2>{title}</h2>")[2].partition("</table>")[0]
    return re.findall(r"<tr><td><code>(.*?)</code>", table)


@pytest.mark.parametrize("mode", MODES)
def test_the_page_names_modules_lines_and_owners(
    mode: Any, user: dict[str, Callable[..., Any]], tmp_path: Path
) -> None:
    network = _Net().to("tpu")
    optimizer = torch.optim.Adam(network.parameters())
    x = torch.ones(256, 64, device="tpu")
    with torch.tpu.eager_mode(mode):
        _record()
        for number in range(2):
            with torch.tpu.profiler.step(number):
                loss = user["train"](network, optimizer, x)
        loss.item()
        torch.tpu.memory.viewer(tmp_path / "mem.html")
    page = (tmp_path / "mem.html").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["mem.html"]
    (events, *_) = torch.tpu.memory._snapshot()["device_traces"]
    labels = {event["user_metadata"] for event in events}
    assert {"_Net.layers.0", "_Net.layers.1", "_Net.layers.2"} <= labels
    assert "_Net.layers.2" in _rows(page, "At the peak, by module")
    assert "/home/user/train.py:6 train" in _rows(page, "At the peak, by line")
    now = _rows(page, "Now, by module")
    assert {
        "_Net.layers.0.weight",
        "gradient of _Net.layers.2.weight",
        "Adam exp_avg of _Net.layers.0.bias",
    } <= set(now)
    assert ">step 0</text>" in page
    assert ">step 1</text>" in page
    assert "http" not in page
    assert "<script" not in page


def test_the_page_without_a_history(tmp_path: Path) -> None:
    network = _Net().to("tpu")
    torch.tpu.memory.viewer(tmp_path / "mem.html", "tpu:0")
    page = (tmp_path / "mem.html").read_text()
    assert "Nothing was recorded" in page
    assert "_Net.layers.2.bias" in _rows(page, "Now, by module")
    with pytest.raises(ValueError, match="no device tpu:99"):
        torch.tpu.memory.viewer(tmp_path / "mem.html", 99)
    del network


def test_the_replay_finds_the_peak() -> None:
    def event(action: str, address: int, size: int, time: int) -> dict[str, Any]:
        return {
            "action": action,
            "addr": address,
            "size": size,
            "time_us": time,
            "user_metadata": "Net.a" if address == 1 else "",
            "frames": [],
        }

    events = [
        event("alloc", 1, 100, 10),
        event("alloc", 2, 50, 20),
        event("free_completed", 1, 100, 30),
        event("alloc", 3, 60, 40),
    ]
    snapshot = {"device_traces": [events], "segments": []}
    result = memory_replay.replay(snapshot, {}, 0, 1110)
    assert result.timeline == [(10, 1100), (20, 1150), (30, 1050), (40, 1110)]
    assert (result.peak, result.peak_time) == (1150, 20)
    assert memory_replay.totals(result.at_peak, "module") == [
        (memory_replay.BEFORE, 1000, 1),
        ("Net.a", 100, 1),
        (memory_replay.NO_MODULE, 50, 1),
    ]


def test_modules_of_a_compiled_graph_are_not_hooked() -> None:
    network = _Net().to("tpu")
    compiled = torch.compile(network, fullgraph=True)
    x = torch.ones(4, 64, device="tpu")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("error", ".*global hooks")
        _record(max_entries=sys.maxsize)
        assert torch.allclose(compiled(x).cpu(), network(x).cpu(), atol=1e-5)
