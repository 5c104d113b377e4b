# SPDX-License-Identifier: Apache-2.0
"""Whether what the device gives is what the CPU gives: values, dtypes, sizes and strides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.upstream.row import Mismatch

# By dtype: (relative, absolute). A module is a chain of a few operators: what holds for one of them
# is not enough, what holds for a network is too much.
TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.float64: (1e-7, 1e-9),
    torch.complex128: (1e-7, 1e-9),
    torch.float32: (1e-4, 1e-5),
    torch.complex64: (1e-4, 1e-5),
    torch.bfloat16: (1.6e-2, 2e-2),
    torch.float16: (2e-3, 4e-3),
}


def check(
    what: str,
    ours: Any,
    theirs: Any,
    *,
    strides: bool = False,
    anywhere: bool = False,
    like: torch.dtype | None = None,
    truth: Callable[[], Any] | None = None,
) -> None:
    """Compare two structures of tensors. Raises Mismatch, which begins with `what`.

    Ours must lie on tpu, unless `anywhere`; values may differ as those of dtype `like` do. `truth`:
    the same structure from wider numbers. Where ours is nearer to it than theirs, it is theirs that
    is inexact.
    """
    ours, theirs = _leaves(ours), _leaves(theirs)
    if len(ours) != len(theirs):
        raise Mismatch(f"{what}: {len(ours)} results for {len(theirs)}")
    for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        words = f"{what} {index}" if len(theirs) > 1 else what
        if not anywhere:
            on_device(words, one)
        try:
            _check_leaf(words, one, other, strides, like)
        except _OtherValues:
            if truth is None or not _is_nearer(one, other, _leaves(truth())[index]):
                raise


def equal(what: str, ours: Any, theirs: Any) -> None:
    """Compare two structures of tensors bit for bit. Raises Mismatch, which begins with `what`."""
    for one, other in zip(_leaves(ours), _leaves(theirs), strict=True):
        if isinstance(other, torch.Tensor):
            same = torch.equal(one.detach().cpu(), other.detach().cpu())
        else:
            same = one == other
        if not same:
            raise Mismatch(f"{what}: not the same values")


def on_device(what: str, structure: Any) -> None:
    """Raise Mismatch, which begins with `what`, for a tensor that does not lie on tpu."""
    for leaf in _leaves(structure):
        if isinstance(leaf, torch.Tensor) and leaf.device.type != "tpu":
            raise Mismatch(f"{what}: a tensor lies on {leaf.device}")


class _OtherValues(Mismatch):
    """Only the values are not the same."""


def _is_nearer(ours: torch.Tensor, theirs: torch.Tensor, truth: torch.Tensor) -> bool:
    def error(found: torch.Tensor) -> torch.Tensor:
        return (_values(found).to(truth.dtype) - _values(truth)).abs().max()

    return bool(error(ours) <= error(theirs))


def _check_leaf(what: str, ours: Any, theirs: Any, strides: bool, like: torch.dtype | None) -> None:
    if not isinstance(theirs, torch.Tensor):
        if ours != theirs:
            raise Mismatch(f"{what}: {ours!r} for {theirs!r}")
        return
    if not isinstance(ours, torch.Tensor):
        raise Mismatch(f"{what}: {ours!r} for a tensor")
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        raise Mismatch(
            f"{what}: {ours.dtype} {list(ours.shape)} for {theirs.dtype} {list(theirs.shape)}"
        )
    if strides and ours.layout is torch.strided and ours.stride() != theirs.stride():
        raise Mismatch(f"{what}: strides {ours.stride()} for {theirs.stride()}")
    if ours.layout != theirs.layout:
        raise Mismatch(f"{what}: {ours.layout} for {theirs.layout}")
    rtol, atol = TOLERANCES.get(like or theirs.dtype, (0.0, 0.0))
    try:
        torch.testing.assert_close(
            _values(ours), _values(theirs), rtol=rtol, atol=atol, equal_nan=True
        )
    except AssertionError as differs:
        lines = [line for line in str(differs).splitlines() if line]
        raise _OtherValues(f"{what}: {'; '.join(lines)[:250]}") from None


def _values(tensor: torch.Tensor) -> torch.Tensor:
    """Of sparse tensors too: in which order and how often they name an element does not matter."""
    tensor = tensor.detach().cpu()
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def _leaves(structure: Any) -> list[Any]:
    leaves = []
    for leaf in pytree.tree_leaves(structure):
        # PackedSequence is a tuple of tensors that pytree does not know.
        leaves += list(leaf) if isinstance(leaf, torch.nn.utils.rnn.PackedSequence) else [leaf]
    return leaves
