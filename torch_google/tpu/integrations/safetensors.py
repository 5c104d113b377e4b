# SPDX-License-Identifier: Apache-2.0
"""Makes safetensors' `safe_open`, and thus `load_file` and `load_model`, accept `device="tpu"`.

The library's Rust code rejects unknown devices. So files are opened on the CPU, and each tensor is
copied to the device when it is read.
"""

from __future__ import annotations

from types import ModuleType, TracebackType
from typing import Any

import torch


def extend(safetensors: ModuleType) -> None:
    """Replace `safetensors.safe_open` before other modules can import the original."""
    original = safetensors.safe_open

    class Either(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, original | _File)

    class safe_open(metaclass=Either):  # noqa: N801 - as in the library
        __doc__ = original.__doc__

        def __new__(cls, filename: Any, framework: Any, device: Any = "cpu", **more: Any) -> Any:
            if not _is_ours(device):
                return original(filename, framework, device, **more)
            return _File(original(filename, framework, "cpu", **more), torch.device(device))

    safe_open.__module__ = safetensors.__name__
    safetensors.safe_open = safe_open  # type: ignore[attr-defined]


def _is_ours(device: Any) -> bool:
    if isinstance(device, torch.device):
        return device.type == "tpu"
    return isinstance(device, str) and device.partition(":")[0] == "tpu"


class _Slice:
    """A lazy slice of a tensor in a file. Only the indexed part is copied to the device."""

    def __init__(self, part: Any, device: torch.device) -> None:
        self._part = part
        self._device = device

    def __getitem__(self, index: Any) -> torch.Tensor:
        tensor: torch.Tensor = self._part[index]
        return tensor.to(self._device)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)


class _File:
    """An open file that copies the tensors it reads to a device."""

    def __init__(self, file: Any, device: torch.device) -> None:
        self._file = file
        self._device = device

    def get_tensor(self, name: str) -> torch.Tensor:
        tensor: torch.Tensor = self._file.get_tensor(name)
        return tensor.to(self._device)

    def get_tensors(self) -> dict[str, torch.Tensor]:
        return {name: self.get_tensor(name) for name in self._file.keys()}  # noqa: SIM118 - no dict

    def get_slice(self, name: str) -> _Slice:
        return _Slice(self._file.get_slice(name), self._device)

    def __enter__(self) -> _File:
        self._file.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.__exit__(kind, error, trace)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
