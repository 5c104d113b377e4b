# SPDX-License-Identifier: Apache-2.0
"""Select samples of an operator from torch's op_db, and copy them to a device."""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.opinfo.core import SampleInput
from torch.utils import _pytree as pytree


@dataclass(frozen=True)
class Sample:
    """The arguments of a call, on the CPU.

    `finish`, which op_db defines, extracts the part of a result that is uniquely determined.
    """

    index: int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    finish: Callable[[Any], Any]


def operators() -> dict[str, Any]:
    """Return torch's op_db as a dict. The key of a variant is `name.variant`."""
    return {name(op): op for op in common_methods_invocations.op_db}


def name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def pick(
    op: Any, dtype: torch.dtype, count: int | None, *, few: int, gradients: bool
) -> tuple[list[Sample], int]:
    """Return the first `count` samples (all if None), and the total number of samples.

    The order of the samples is fixed. It starts with the `few` samples that gate_test.py runs.
    """
    all_samples = list(_generated(op, dtype, gradients=gradients))
    order = _order(len(all_samples), few)[:count]
    return [_sample(all_samples[i], i) for i in order], len(all_samples)


def first(op: Any, dtype: torch.dtype, count: int | None) -> list[Sample]:
    """Return the first samples, cast to `dtype` if the operator does not declare that dtype."""
    source = source_of(op, dtype)
    assert source is not None
    generated = itertools.islice(_generated(op, source, gradients=False), count)
    return [_sample(_cast(sample, source, dtype), i) for i, sample in enumerate(generated)]


def source_of(op: Any, dtype: torch.dtype) -> torch.dtype | None:
    """Return the dtype that the samples for `dtype` are cast from, which may be `dtype` itself.

    Return None if the operator declares neither `dtype` nor any of _SOURCES.
    """
    return next((source for source in (dtype, *_SOURCES) if source in op.dtypes), None)


def _generated(op: Any, dtype: torch.dtype, *, gradients: bool) -> Iterator[Any]:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from op.sample_inputs("cpu", dtype, requires_grad=gradients)


def _sample(generated: Any, index: int) -> Sample:
    args = (generated.input, *generated.args)
    return Sample(index, args, dict(generated.kwargs), generated.output_process_fn_grad)


def _cast(sample: Any, source: torch.dtype, dtype: torch.dtype) -> SampleInput:
    def cast(value: Any) -> Any:
        is_source = isinstance(value, torch.Tensor) and value.dtype == source
        return value.detach().to(dtype) if is_source else value

    arguments = (sample.input, tuple(sample.args), dict(sample.kwargs))
    first, args, kwargs = pytree.tree_map(cast, arguments)
    return SampleInput(first, args=args, kwargs=kwargs)


def _order(total: int, few: int) -> list[int]:
    """Return the order of samples: the first one, `few` - 1 random ones, then the rest, shuffled.

    The order is random because samples are often a Cartesian product: taking every n-th sample
    might miss some values of a factor.
    """
    others = range(1, total)
    early = sorted(random.Random(few).sample(others, min(few - 1, len(others))))
    late = sorted(set(others) - set(early))
    random.Random(0).shuffle(late)
    return [0, *early, *late][:total]


def permuted(sample: Sample) -> Sample:
    """Return the sample with the same values, but with a different stride order.

    If the sample's index is even, the first dimension becomes innermost. If it is odd, the
    second one does, as in channels last, unless the tensor has only two dimensions.
    """

    def reorder(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.ndim < 2:
            return value
        inner = sample.index % 2 if value.ndim > 2 else 0
        return value.detach().movedim(inner, -1).contiguous().movedim(-1, inner)

    args, kwargs = pytree.tree_map(reorder, (sample.args, sample.kwargs))
    return replace(sample, args=args, kwargs=kwargs)


def placed(
    op: Any, sample: Sample, device: str, *, wider: bool = False
) -> tuple[list[Any], dict[str, Any]]:
    """Return copies of the arguments on `device`, with the same strides.

    An argument that is itself a device is replaced by `device`. `wider` converts float32 and
    narrower dtypes to float64, and complex64 to complex128.
    """

    def leaf(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return _copy(value, device, wider)
        if isinstance(value, torch.device):
            return torch.device(device)
        if isinstance(value, torch.dtype):
            return _WIDER.get(value, value) if wider else value
        return device if value == "cpu" and isinstance(value, str) else value

    args, kwargs = pytree.tree_map(leaf, (list(sample.args), sample.kwargs))
    for position in _ON_HOST.get(op.name, ()):
        if position < len(args):
            args[position] = sample.args[position]
    return args, kwargs


def _copy(tensor: torch.Tensor, device: str, wider: bool) -> torch.Tensor:
    source = tensor.detach()
    if source.layout != torch.strided:
        copy = source.clone().to(device)
    elif source.is_conj():
        copy = _copy(source.conj(), device, wider).conj()
    elif source.is_neg():
        copy = torch._neg_view(_copy(torch._neg_view(source), device, wider))
    else:
        size = source.untyped_storage().nbytes() // source.element_size()
        storage = source.as_strided((size,), (1,), 0).clone()
        if wider:
            storage = storage.to(_WIDER.get(storage.dtype, storage.dtype))
        copy = storage.to(device)
        copy = copy.as_strided(source.shape, source.stride(), source.storage_offset())
    return copy.requires_grad_(tensor.requires_grad)


# If an operator does not declare a dtype, its samples are cast from the first of these dtypes that
# it does declare.
_SOURCES = (torch.float32, torch.complex64, torch.int64, torch.bool)

# The positions of tensor arguments that torch requires on the CPU, because they determine shapes.
_ON_HOST = {"tensor_split": (1,)}

_WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}
