# SPDX-License-Identifier: Apache-2.0
"""Compare results on tpu with those on the CPU: values, dtypes, sizes and strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.upstream.row import Mismatch

# Relative and absolute tolerances by dtype. They suit a module, which runs a few operators: a
# single operator would need smaller tolerances, and a whole network larger ones.
TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.float64: (1e-7, 1e-9),
    torch.complex128: (1e-7, 1e-9),
    torch.float32: (1e-4, 1e-5),
    torch.complex64: (1e-4, 1e-5),
    torch.bfloat16: (1.6e-2, 2e-2),
    torch.float16: (2e-3, 4e-3),
}


def check(
    label: str,
    actual: Any,
    expected: Any,
    *,
    strides: bool = False,
    anywhere: bool = False,
    like: torch.dtype | None = None,
    truth: Callable[[], Any] | None = None,
) -> None:
    """Raise a Mismatch whose text begins with `label` if two structures of tensors differ.

    Tensors in `actual` must be on tpu, unless `anywhere` is true. If `like` is given, use the
    tolerance for that dtype. `truth` returns the results in a wider dtype: values outside the
    tolerance are accepted if they are as close to the truth as `expected` is.
    """
    actual, expected = _leaves(actual), _leaves(expected)
    if len(actual) != len(expected):
        raise Mismatch(f"{label}: {len(actual)} results for {len(expected)}")
    for index, (one, other) in enumerate(zip(actual, expected, strict=True)):
        name = f"{label} {index}" if len(expected) > 1 else label
        if not anywhere:
            on_device(name, one)
        try:
            _check_leaf(name, one, other, strides, like)
        except _OtherValues:
            if truth is None or not _is_nearer(one, other, _leaves(truth())[index]):
                raise


def equal(label: str, actual: Any, expected: Any) -> None:
    """Raise a Mismatch whose text begins with `label` unless two structures have equal values."""
    for one, other in zip(_leaves(actual), _leaves(expected), strict=True):
        if isinstance(other, torch.Tensor):
            same = torch.equal(one.detach().cpu(), other.detach().cpu())
        else:
            same = one == other
        if not same:
            raise Mismatch(f"{label}: not the same values")


def on_device(label: str, structure: Any) -> None:
    """Raise a Mismatch whose text begins with `label` if a tensor is not on tpu."""
    for leaf in _leaves(structure):
        if isinstance(leaf, torch.Tensor) and leaf.device.type != "tpu":
            raise Mismatch(f"{label}: a tensor is on {leaf.device}")


class _OtherValues(Mismatch):
    """Raised if tensors differ only in their values."""


def _is_nearer(actual: torch.Tensor, expected: torch.Tensor, truth: torch.Tensor) -> bool:
    def error(tensor: torch.Tensor) -> torch.Tensor:
        return (_values(tensor).to(truth.dtype) - _values(truth)).abs().max()

    return bool(error(actual) <= error(expected))


def _check_leaf(
    label: str, actual: Any, expected: Any, strides: bool, like: torch.dtype | None
) -> None:
    if not isinstance(expected, torch.Tensor):
        if actual != expected:
            raise Mismatch(f"{label}: {actual!r} for {expected!r}")
        return
    if not isinstance(actual, torch.Tensor):
        raise Mismatch(f"{label}: {actual!r} for a tensor")
    if (actual.dtype, actual.shape) != (expected.dtype, expected.shape):
        raise Mismatch(
            f"{label}: {actual.dtype} {list(actual.shape)} for {expected.dtype} {list(expected.shape)}"
        )
    if strides and actual.layout is torch.strided and actual.stride() != expected.stride():
        raise Mismatch(f"{label}: strides {actual.stride()} for {expected.stride()}")
    if actual.layout != expected.layout:
        raise Mismatch(f"{label}: {actual.layout} for {expected.layout}")
    rtol, atol = TOLERANCES.get(like or expected.dtype, (0.0, 0.0))
    try:
        torch.testing.assert_close(
            _values(actual), _values(expected), rtol=rtol, atol=atol, equal_nan=True
        )
    except AssertionError as differs:
        lines = [line for line in str(differs).splitlines() if line]
        raise _OtherValues(f"{label}: {'; '.join(lines)[:250]}") from None


def _values(tensor: torch.Tensor) -> torch.Tensor:
    """Return a dense copy on the CPU, so that the order of sparse indices has no effect."""
    tensor = tensor.detach().cpu()
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def _leaves(structure: Any) -> list[Any]:
    leaves = []
    for leaf in pytree.tree_leaves(structure):
        # PackedSequence is a tuple of tensors, but pytree does not flatten it.
        leaves += list(leaf) if isinstance(leaf, torch.nn.utils.rnn.PackedSequence) else [leaf]
    return leaves
