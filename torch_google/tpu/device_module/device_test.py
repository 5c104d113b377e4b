# SPDX-License-Identifier: Apache-2.0
"""`torch.tpu` has all names from torch.cuda and torch.xpu that apply to this device."""

from __future__ import annotations

import types

import pytest
import torch

from torch_google.tpu.release import V2_6
from torch_google.tpu.runtime import platform

# Names in torch.cuda and torch.xpu that do not apply to this device, such as graph capture, memory
# pools, pluggable allocators, sensors, processes of the whole machine, and architectures for
# ahead-of-time compilation.
ABSENT = {
    "MemPool",
    "change_current_allocator",
    "clock_rate",
    "default_generators",
    "device_memory_used",
    "get_gencode_flags",
    "get_stream_from_external",
    "graph",
    "graph_pool_handle",
    "graphs",
    "is_current_stream_capturing",
    "is_tf32_supported",
    "list_gpu_processes",
    "make_graphed_callables",
    "memory_snapshot",
    "memory_usage",
    "power_draw",
    "streams",
    "temperature",
    "use_mem_pool",
    "utilization",
}


def surface(module: types.ModuleType) -> set[str]:
    def is_torch_s(value: object) -> bool:
        home = value.__name__ if isinstance(value, types.ModuleType) else value.__module__
        return home.startswith("torch.")

    named = {n: v for n, v in vars(module).items() if not n.startswith("_")}
    return {n for n, v in named.items() if hasattr(v, "__module__") and is_torch_s(v)} | {
        n for n, v in named.items() if isinstance(v, types.ModuleType) and is_torch_s(v)
    }


def test_the_surface_of_other_devices() -> None:
    shared = surface(torch.cuda) & surface(torch.xpu)
    assert {"manual_seed", "memory_stats", "random", "memory"} <= shared
    assert sorted(shared - set(torch.tpu.__all__) - ABSENT) == []
    assert sorted(set(torch.tpu.__all__) & ABSENT) == []
    assert torch.get_device_module("tpu") is torch.tpu
    assert all(hasattr(torch.tpu, name) for name in torch.tpu.__all__)


def test_properties() -> None:
    properties = torch.tpu.get_device_properties("tpu:0")
    assert properties.name == torch.tpu.get_device_name() == platform.device(0).device_kind
    assert properties.platform == platform.name()
    assert properties.process_index == 0
    assert torch.tpu.get_device_capability(0)["name"] == properties.name
    if properties.platform == "cpu":
        assert properties.total_memory is not None
        assert properties.coords is None
    with pytest.raises(ValueError, match="no device tpu:99; this process has"):
        torch.tpu.get_device_properties(99)
    with pytest.raises(ValueError, match="expected a device of type tpu, found 'cpu'"):
        torch.tpu.get_device_name("cpu")
    assert torch.tpu.can_device_access_peer(0, "tpu:0") is False
    assert torch.tpu.get_arch_list() == []
    assert torch.tpu.is_bf16_supported()


def test_properties_that_pjrt_has(monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        platform_version = "libtpu 1"

    class Chip:
        device_kind, platform, id = "TPU v9", "tpu", 3
        local_hardware_id, process_index = 1, 2
        client = Client()
        coords, core_on_chip, slice_index = [0, 1, 2], 1, 0

        def memory_stats(self) -> dict[str, int]:
            return {"bytes_limit": 100, "bytes_in_use": 30}

    monkeypatch.setattr(platform, "device", lambda index: Chip())
    monkeypatch.setattr(platform, "name", lambda: "tpu")
    properties = torch.tpu.get_device_properties(0)
    assert (properties.coords, properties.core_on_chip, properties.total_memory) == (
        (0, 1, 2),
        1,
        100,
    )
    assert torch.tpu.mem_get_info() == (70, 100)
    assert "pjrt bytes_in_use" in torch.tpu.memory_summary()
    monkeypatch.setattr(Chip, "memory_stats", lambda self: None)
    assert torch.tpu.get_device_properties(0).total_memory is None
    with pytest.raises(NotImplementedError, match="does not say how much memory tpu:0 has"):
        torch.tpu.mem_get_info()


def test_memory() -> None:
    before = torch.tpu.memory_allocated()
    x = torch.ones(1000, device="tpu")
    assert torch.tpu.memory_reserved() == torch.tpu.memory_allocated() == before + 4000
    assert torch.tpu.max_memory_reserved() >= before + 4000
    nested = torch.tpu.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == before + 4000
    free, total = torch.tpu.mem_get_info()
    assert 0 < free <= total
    assert f"{before + 4000:,}" in torch.tpu.memory_summary(abbreviated=True)
    torch.tpu.reset_accumulated_memory_stats()
    assert torch.tpu.memory_stats()["allocated_bytes.all.allocated"] == 0
    torch.tpu.ipc_collect()
    torch.tpu.empty_cache()
    del x
    assert torch.tpu.memory_allocated() == before


@pytest.mark.skipif(V2_6, reason="torch.accelerator of v2.6 has less")
def test_torch_accelerator_asks_the_device() -> None:
    free, total = torch.accelerator.get_memory_info()
    assert 0 < free <= total == torch.tpu.mem_get_info()[1]
    assert torch.bfloat16 in torch.accelerator.get_device_capability()["supported_dtypes"]
    torch.accelerator.empty_host_cache()
    assert torch.accelerator.current_accelerator() == torch.device("tpu")


def test_random_numbers_of_a_block() -> None:
    assert torch.tpu.random.initial_seed is torch.tpu.initial_seed
    torch.tpu.manual_seed(3)
    with torch.random.fork_rng(device_type="tpu"):
        first = torch.rand(4, device="tpu").tolist()
    assert torch.rand(4, device="tpu").tolist() == first


def test_devices_and_streams_of_a_block() -> None:
    x = torch.ones(2, device="tpu")
    with torch.tpu.device_of(x):
        assert torch.tpu.current_device() == 0
    with torch.tpu.device_of(x.cpu()):
        assert torch.tpu.current_device() == 0
    assert torch.tpu.default_stream() == torch.tpu.current_stream()
    other = torch.tpu.Stream()
    with torch.tpu.stream(other):
        assert torch.tpu.current_stream() == other
    assert torch.tpu.current_stream() == torch.tpu.default_stream()
