# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from torch_google.tpu.runtime import accelerator_nodes, platform

Machine = Callable[..., None]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a function that creates the device files of a machine in a temporary directory."""
    monkeypatch.setattr(accelerator_nodes, "_ROOT", tmp_path)
    for variable in ("TORCH_TPU_PLATFORM", "TPU_VISIBLE_CHIPS", "TORCH_TPU_CPU_DEVICES"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(platform, "_of_jax", lambda: "1")

    def create(nodes: Sequence[str], chip: str = "") -> None:
        for index, node in enumerate(nodes):
            file = tmp_path / "dev" / node
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
            if chip:
                device = tmp_path / f"sys/bus/pci/devices/0000:00:0{index}.0"
                device.mkdir(parents=True)
                (device / "vendor").write_text("0x1ae0\n")
                (device / "device").write_text(f"{chip}\n")

    return create


_V5E = ["vfio/0", "vfio/1", "vfio/2", "vfio/3"]


def test_a_machine_without_accelerators(machine: Machine) -> None:
    machine(["null", "vfio/vfio", "nvidiactl", "accelerator"])
    assert platform.expected_devices() == 1
    assert not accelerator_nodes.exist()


@pytest.mark.parametrize(
    ("nodes", "chip", "devices"),
    [
        (["accel0", "accel1", "accel2", "accel3"], "0x0027", 8),  # TPU v3
        (["accel0", "accel1", "accel2", "accel3"], "0x005e", 4),  # TPU v4
        ([*_V5E, "vfio/vfio"], "0x0063", 4),
        (["vfio/0", "vfio/1", "vfio/2", "vfio/3"], "0x0076", 8),  # TPU7x
        (_V5E, "", 4),  # the PCI bus is not visible, as in some containers
        (["nvidia0", "nvidia1", "nvidiactl"], "", 2),
    ],
)
def test_the_devices_of_a_machine(
    machine: Machine, nodes: Sequence[str], chip: str, devices: int
) -> None:
    machine(nodes, chip)
    assert platform.expected_devices() == devices
    assert accelerator_nodes.exist()


@pytest.mark.parametrize(
    ("visible", "devices"),
    [("0", 2), ("1,3", 4), ("2,2", 2), ("", 8), ("all", 8), ("0,1,2,3,4,5", 8)],
)
def test_the_visible_chips(
    machine: Machine, visible: str, devices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(_V5E, "0x0076")
    monkeypatch.setenv("TPU_VISIBLE_CHIPS", visible)
    assert platform.expected_devices() == devices


def test_the_platform_that_is_asked_for(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine([*_V5E, "nvidia0", "nvidia1"])
    assert platform.expected_devices() == 4  # the machine has both, and a TPU is preferred to a GPU
    for name, devices in (("tpu", 4), ("cuda", 2), ("cpu", 1), ("other", 4)):
        monkeypatch.setenv("TORCH_TPU_PLATFORM", name)
        assert platform.expected_devices() == devices
