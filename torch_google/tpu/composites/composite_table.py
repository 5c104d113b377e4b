# SPDX-License-Identifier: Apache-2.0
"""Registers the composite operators with torch, as kernels for the tpu device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from torch_google.tpu import release
from torch_google.tpu.runtime.dynamo_skip import untraced

_ATEN = torch.library.Library("aten", "IMPL")


def register() -> None:
    """Register all composite operators with torch, when the device is initialized. Idempotent."""
    from torch_google.tpu.composites import (
        attention,
        compressed_tensors,
        nested_tensors,
        quantization,
        recurrent_networks,
        sparse_structure,
        sparse_tensors,
        synchronized_batch_norm,
        transformers,
        values,
    )

    # Register for both dispatch keys, because inference mode skips the autograd key.
    for room in (
        attention,
        quantization,
        recurrent_networks,
        synchronized_batch_norm,
        transformers,
        values,
    ):
        kernels: Mapping[str, Callable[..., Any]] = room.KERNELS
        _register(kernels, "AutogradPrivateUse1", "PrivateUse1")
    for kernels in (sparse_tensors.KERNELS, sparse_structure.KERNELS):
        _register(kernels, "SparsePrivateUse1")
    _register(sparse_structure.DENSE_KERNELS, "PrivateUse1")
    if not release.V2_6:  # which has compressed tensors only on its own devices
        _register(compressed_tensors.KERNELS, "SparseCsrPrivateUse1")
        _register(compressed_tensors.COO_KERNELS, "SparsePrivateUse1")
        _register(compressed_tensors.DENSE_KERNELS, "PrivateUse1")
    _register(nested_tensors.kernels(), "NestedTensorPrivateUse1")
    _register(nested_tensors.dense_kernels(), "PrivateUse1")


def _register(kernels: Mapping[str, Callable[..., Any]], *keys: str) -> None:
    for name, kernel in kernels.items():
        for key in keys:
            if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", key):
                _ATEN.impl(name, _hidden(kernel), key)


def _hidden(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a kernel, and that Dynamo skips."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return kernel(*args, **kwargs)

    return untraced(call)
