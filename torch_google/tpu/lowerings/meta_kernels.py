# SPDX-License-Identifier: Apache-2.0
"""Shapes of results that torch does not know without a device: it has no meta kernel for these."""

from __future__ import annotations

import torch

_META = torch.library.Library("aten", "IMPL", "Meta")


def _geqrf(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(a), a.new_empty((*a.shape[:-2], min(a.shape[-2:])))


def _lstsq(
    a: torch.Tensor, b: torch.Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    m, n = a.shape[-2:]
    driver = driver or "gelsy"
    vector = a.ndim - 1 == b.ndim and a.shape[:-1] == b.shape
    columns = b.unsqueeze(-1) if vector else b
    lead = torch.broadcast_shapes(a.shape[:-2], columns.shape[:-2])
    solution = a.new_empty((*lead, n) if vector else (*lead, n, columns.shape[-1]))
    real = torch.empty((), dtype=a.dtype, device="meta").abs().dtype
    tall = m > n and driver != "gelsy"
    residuals = a.new_empty((*lead, columns.shape[-1]) if tall else (0,), dtype=real)
    rank = a.new_empty((0,) if driver == "gels" else a.shape[:-2], dtype=torch.int64)
    kept = driver in ("gelsd", "gelss")
    values = a.new_empty((*a.shape[:-2], min(m, n)) if kept else (0,), dtype=real)
    return solution, residuals, rank, values


_META.impl("geqrf", _geqrf)
_META.impl("linalg_lstsq", _lstsq)
