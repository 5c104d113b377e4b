# SPDX-License-Identifier: Apache-2.0
"""Chooses the rule for a call. A call without padding runs the operator's lowering."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import torch
from torch.utils import _pytree as pytree

from torch_google.tpu.buckets.padded_array import PaddedArray
from torch_google.tpu.buckets.pointwise import pointwise
from torch_google.tpu.buckets.rules import bare, find, plain
from torch_google.tpu.buckets.sizes import PaddingRefusal
from torch_google.tpu.program.lowering_lookup import lowering_of

if TYPE_CHECKING:
    from torch_google.tpu.buckets.rules import Rule, RuleCall


def apply_rule(call: RuleCall) -> list[PaddedArray | None]:
    """Return the results of a call, and record the assumptions about their sizes in its scope.

    Raises PaddingRefusal with the reason if padding could affect a result.
    """
    try:
        results = _rule(call)(call)
    except PaddingRefusal:
        raise
    except Exception as error:  # if padding caused the error, a program without padding may work
        raise PaddingRefusal(f"{call.op.name()}: {type(error).__name__}") from error
    for result, fake in zip(results, call.metas, strict=True):
        if isinstance(result, PaddedArray):
            call.scope.expect(result.dims, fake.shape)
    return list(results)


def _rule(call: RuleCall) -> Rule:
    op = call.op
    rule = find(op)
    lowering = lowering_of(op)
    if lowering is not None and lowering.on_host(bare(call.args), bare(call.kwargs)):
        raise PaddingRefusal(f"{op.name()}, whose shape depends on values")
    if _is_exact(call):
        return _exactly
    if rule is not None:
        return rule
    if torch.Tag.pointwise in op.tags and (lowering is None or not lowering.random):
        return pointwise
    raise PaddingRefusal(op.name())


def _is_exact(call: RuleCall) -> bool:
    """Return whether an operator's arguments and results have the same sizes in all calls.

    Return False if an argument is a traced number, because it may be a size.
    """
    leaves = pytree.tree_leaves(
        (call.args, dict(call.kwargs)), is_leaf=lambda leaf: isinstance(leaf, PaddedArray)
    )
    changing = any(
        leaf.padded if isinstance(leaf, PaddedArray) else isinstance(leaf, jax.Array)
        for leaf in leaves
    )
    return not changing and all(
        call.scope.is_fixed(size)
        for meta in call.metas
        if isinstance(meta, torch.Tensor)
        for size in meta.shape
    )


def _exactly(call: RuleCall) -> list[PaddedArray | None]:
    results = call.lower(*call.args, **call.kwargs)
    return [None if array is None else PaddedArray(array, plain(array.shape)) for array in results]
