# SPDX-License-Identifier: Apache-2.0
"""Makes `quantile` and `one_hot` check their tensors' values in debug mode.

torch itself checks them only for tensors on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import OpOverload

from torch_google.tpu.runtime import errors


def _quantile(op: OpOverload) -> Callable[..., torch.Tensor]:
    def kernel(self: torch.Tensor, q: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if _is_asked(q) and not bool(((q >= 0) & (q <= 1)).all()):
            raise _error(op, "quantile() q values must be in the range [0, 1]")
        result: torch.Tensor = op._op_dk(_FORMULA, self, q, *args, **kwargs)
        return result

    return kernel


def _one_hot(self: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
    if self.dtype == torch.int64 and _is_asked(self):
        if int(self.min()) < 0:
            raise _error(_ONE_HOT, "Class values must be non-negative.")
        if num_classes > 0 and int(self.max()) >= num_classes:
            raise _error(_ONE_HOT, "Class values must be smaller than num_classes.")
    result: torch.Tensor = _ONE_HOT._op_dk(_FORMULA, self, num_classes)
    return result


def _is_asked(values: torch.Tensor) -> bool:
    """Return whether to check values: only in debug mode, and not for fake tensors."""
    return (
        type(values) in (torch.Tensor, torch.nn.Parameter)
        and values.device.type == "tpu"
        and values.numel() > 0
        and torch.tpu.get_eager_mode() == "debug"
    )


def _error(op: OpOverload, message: str) -> RuntimeError:
    return RuntimeError(f"{errors.caller()}: {op.name()}: {message}")


_ATEN = torch.ops.aten
_FORMULA = DispatchKey.CompositeImplicitAutograd
_ONE_HOT = _ATEN.one_hot.default
KERNELS: dict[str, Callable[..., Any]] = {
    "quantile": _quantile(_ATEN.quantile.default),
    "nanquantile": _quantile(_ATEN.nanquantile.default),
    "one_hot": _one_hot,
}
