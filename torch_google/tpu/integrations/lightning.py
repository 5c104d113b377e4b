# SPDX-License-Identifier: Apache-2.0
"""Makes Lightning's Trainer and Fabric use this device for `accelerator="tpu"` and `"auto"`.

Lightning's own `tpu` accelerator needs torch_xla. If torch_xla is not available, this device takes
over the name. Lightning picks the accelerator for `"auto"`, the strategy and the precision from
fixed lists of devices, so this module also patches its connectors.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import torch


def extend_fabric(connector: ModuleType) -> None:
    """Extend the module `lightning.fabric.connector` or `lightning_fabric.connector`."""
    fabric = connector.__name__.removesuffix(".connector")
    accelerators = import_module(f"{fabric}.accelerators")
    if accelerators.XLAAccelerator.is_available():
        return
    accelerator = _accelerator(accelerators.Accelerator)
    _register(accelerators.ACCELERATOR_REGISTRY, accelerator)
    strategies = import_module(f"{fabric}.strategies")
    precision = import_module(f"{fabric}.plugins.precision.amp")
    _extend(
        connector._Connector, accelerator, strategies.SingleDeviceStrategy,
        precision.MixedPrecision, "_precision_input",
    )  # fmt: skip
    _without_streams(strategies.DDPStrategy, "_determine_ddp_device_ids")


def extend_trainer(connector: ModuleType) -> None:
    """Extend the Trainer's accelerator connector in `lightning.pytorch` or `pytorch_lightning`."""
    package = connector.__name__.removesuffix(".trainer.connectors.accelerator_connector")
    accelerators = import_module(f"{package}.accelerators")
    if accelerators.XLAAccelerator.is_available():
        return
    accelerator = _accelerator(accelerators.Accelerator)
    _register(accelerators.AcceleratorRegistry, accelerator)
    strategies = import_module(f"{package}.strategies")
    precision = import_module(f"{package}.plugins.precision.amp")
    _extend(
        connector._AcceleratorConnector, accelerator, strategies.SingleDeviceStrategy,
        precision.MixedPrecision, "_precision_flag",
    )  # fmt: skip
    _without_streams(strategies.DDPStrategy, "determine_ddp_device_ids")


def _accelerator(base: type[Any]) -> type[Any]:
    """Return a subclass of `base`, Lightning's abstract `Accelerator`, for this device."""

    class TpuAccelerator(base):
        """Lightning's accelerator for the `tpu` device of torch_google."""

        def setup_device(self, device: torch.device) -> None:
            if device.type != "tpu":
                raise ValueError(f"The accelerator tpu has no device {device}; use tpu or tpu:0")
            torch.tpu.set_device(device)

        def teardown(self) -> None:
            torch.tpu.empty_cache()

        @staticmethod
        def parse_devices(devices: int | str | list[int]) -> int | list[int]:
            """Convert the Trainer's `devices` option to a device count or a list of indices."""
            if isinstance(devices, str):
                numbers = [int(part) for part in devices.split(",") if part.strip()]
                devices = numbers if "," in devices else numbers[0]
            if devices == -1:
                return TpuAccelerator.auto_device_count()
            return devices

        @staticmethod
        def get_parallel_devices(devices: int | list[int]) -> list[torch.device]:
            """Return a device for each process: index 0 if the process sees only one device."""
            indices = range(devices) if isinstance(devices, int) else devices
            count = torch.tpu.device_count()
            return [torch.device("tpu", index if count > 1 else 0) for index in indices]

        @staticmethod
        def auto_device_count() -> int:
            return int(torch.tpu.device_count())

        @staticmethod
        def is_available() -> bool:
            return bool(torch.tpu.is_available())

        @staticmethod
        def name() -> str:
            return "tpu"

        def get_device_stats(self, device: Any) -> dict[str, Any]:
            """Return the device's memory statistics."""
            return dict(torch.tpu.memory_stats(device))

    return TpuAccelerator


def _register(registry: Any, accelerator: type[Any]) -> None:
    registry.register(
        "tpu",
        accelerator,
        description=(accelerator.__doc__ or "").partition("\n")[0],
        override=True,
    )


def _extend(
    connector: type[Any],
    accelerator: type[Any],
    single_device: Callable[..., Any],
    mixed_precision: type[Any],
    precision_attribute: str,
) -> None:
    """Patch the connector's methods that choose the accelerator, strategy and precision plugin."""
    choose_auto = connector._choose_auto_accelerator
    choose_strategy = connector._choose_strategy
    choose_precision = connector._check_and_init_precision

    def auto() -> str:
        known = str(choose_auto())
        current = torch.accelerator.current_accelerator()
        is_ours = known == "cpu" and current is not None and current.type == "tpu"
        return "tpu" if is_ours else known

    def strategy(self: Any) -> Any:
        if not isinstance(self.accelerator, accelerator):
            return choose_strategy(self)
        if len(self._parallel_devices) > 1 or self._num_nodes_flag > 1:
            return "ddp"
        return single_device(device=self._parallel_devices[0])

    def precision(self: Any) -> Any:
        plugin = choose_precision(self)
        if isinstance(self.accelerator, accelerator) and type(plugin) is mixed_precision:
            return mixed_precision(getattr(self, precision_attribute), "tpu")
        return plugin

    connector._choose_auto_accelerator = staticmethod(auto)
    connector._choose_strategy = strategy
    connector._check_and_init_precision = precision


def _without_streams(ddp: type[Any], method: str) -> None:
    """Make DDP omit device IDs on this device, so that Lightning creates no CUDA stream."""
    device_ids = getattr(ddp, method)

    def no_ids(self: Any) -> list[int] | None:
        if self.root_device.type == "tpu":
            return None
        return device_ids(self)

    setattr(ddp, method, no_ids)
