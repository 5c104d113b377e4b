# SPDX-License-Identifier: Apache-2.0
"""Call an operator and record its results, in the same way on the CPU and on tpu."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch.testing._internal import common_methods_invocations
from torch.utils import _pytree as pytree

from tests.conformance import samples
from tests.conformance.samples import Sample, placed


@dataclass
class Seen:
    """The record of a call: CPU copies of its results, and strings to compare across devices.

    `layouts` contains the strides of the results, `facts` everything else, such as whether out= was
    returned.
    """

    values: list[Any] = field(default_factory=list)
    layouts: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    result: Any = None  # The unflattened result, for checks of single operators.
    random: bool = False
    parts: int = 0  # The number of values per call; 0 if there was only one call.
    # For the `out` check on the CPU: the values written to out=. `values` then contains the results
    # of a call without out=.
    own: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Place:
    """The device and the seed of a call, and whether the call computes in double precision."""

    device: str
    seed: int = 0
    wider: bool = False


def forward(op: Any, sample: Sample, place: Place) -> Seen:
    args, kwargs = placed(op, sample, place.device, wider=place.wider)
    observation = Seen()
    with _seeded(place, observation), torch.no_grad():
        result = op.op(*args, **kwargs)
    inputs = {_storage(leaf) for leaf in _tensors((args, kwargs))} - {0}
    observation.result = pytree.tree_map_only(torch.Tensor, _to_cpu, result)
    for leaf in pytree.tree_leaves(result):
        _see(observation, leaf)
        if isinstance(leaf, torch.Tensor):
            shared = leaf.numel() and _storage(leaf) in inputs
            observation.layouts.append(_layout(leaf) + (" of an argument" if shared else ""))
    return observation


def permuted(op: Any, sample: Sample, place: Place) -> Seen:
    """Record a forward call with arguments whose stride order differs from that in op_db.

    Add the strides of the results to `facts`, so that they are compared.
    """
    observation = forward(op, samples.permuted(sample), place)
    observation.facts += observation.layouts
    return observation


def fused(op: Any, sample: Sample, place: Place) -> Seen:
    """Record a forward call. On tpu, call twice in fused mode, and record the second call.

    The second call runs the fused code.
    """
    if place.device == "cpu":
        return forward(op, sample, place)
    with torch.tpu.eager_mode("fused"):
        forward(op, sample, place)
        torch.tpu.wait_for_compiles()
        return forward(op, sample, place)


def backward(op: Any, sample: Sample, place: Place) -> Seen:
    """Record the gradients of all differentiable inputs, with fixed random cotangents."""
    args, kwargs = placed(op, sample, place.device, wider=place.wider)
    inputs = [leaf for leaf in _tensors((args, kwargs)) if leaf.requires_grad]
    observation = Seen()
    with _seeded(place, observation):
        result = sample.finish(_wrapped(op)(*args, **kwargs))
        outputs = [leaf for leaf in _tensors(result) if leaf.requires_grad]
        generator = torch.Generator().manual_seed(sample.index)
        cotangents = [_normal(leaf, generator).to(leaf.device) for leaf in outputs]
        gradients = (
            torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True) if outputs else ()
        )
    for gradient in gradients:
        _see(observation, gradient)
        observation.facts.append("no gradient" if gradient is None else "gradient")
    return observation


def out(op: Any, sample: Sample, place: Place, template: Seen) -> Seen:
    """Record two calls: out= is first a strided view of a larger tensor, then an empty tensor."""
    observation = Seen()
    for make in (_spread, _empty):
        args, kwargs = placed(op, sample, place.device, wider=place.wider)
        outs = [make(leaf, place) for leaf in template.values]
        observation.parts = len(outs)
        out_argument = outs[0] if isinstance(template.result, torch.Tensor) else tuple(outs)
        with _seeded(place, observation), torch.no_grad():
            returned = op.op(*args, **kwargs, out=out_argument)
        for target, leaf in zip(outs, pytree.tree_leaves(returned), strict=True):
            _see(observation, target)
            observation.facts.append(
                f"{_layout(target)} {'itself' if _same(target, leaf) else 'another'}"
            )
    return observation


def inplace(op: Any, sample: Sample, place: Place) -> Seen:
    """Record in-place calls on a whole tensor, and on every second element of a larger tensor."""
    observation = Seen()
    for make in (_whole, _interleaved):
        args, kwargs = placed(op, sample, place.device, wider=place.wider)
        target, buffer = make(args[0])
        with _seeded(place, observation), torch.no_grad():
            returned = op.inplace_variant(target, *args[1:], **kwargs)
        observation.facts.append(
            f"{_layout(target)} {'itself' if _same(target, returned) else 'another'}"
        )
        _see(observation, returned)
        _see(observation, buffer)
    return observation


def _wrapped(op: Any) -> Callable[..., Any]:
    """Return the operator, with op_db's wrapper that maps inputs into the operator's domain."""
    wrapper = op.gradcheck_wrapper
    return op.op if wrapper is _SET_SEED else partial(wrapper, op.op)


def _whole(target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return target, target


def _interleaved(target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    buffer = torch.zeros((*target.shape, 2), dtype=target.dtype, device=target.device)
    view = buffer[..., 0]
    view.copy_(target)
    return view, buffer


def _spread(like: torch.Tensor, place: Place) -> torch.Tensor:
    buffer = torch.empty((*like.shape, 2), dtype=like.dtype, device=place.device)
    return buffer.fill_(1)[..., 0]


def _empty(like: torch.Tensor, place: Place) -> torch.Tensor:
    return torch.empty(0, dtype=like.dtype, device=place.device)


def _see(observation: Seen, leaf: Any) -> None:
    observation.values.append(_to_cpu(leaf) if isinstance(leaf, torch.Tensor) else leaf)


def _to_cpu(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().resolve_conj().resolve_neg()


def _layout(tensor: torch.Tensor) -> str:
    """Describe a tensor's strides, with `-` for dimensions of size 1, whose stride is arbitrary."""
    if tensor.layout != torch.strided:
        return str(tensor.layout)
    sizes = tuple(tensor.shape)
    strides = tuple(
        step if size > 1 else "-" for size, step in zip(sizes, tensor.stride(), strict=True)
    )
    return f"strides ({', '.join(map(str, strides if tensor.numel() else ()))})"


def _same(one: Any, other: Any) -> bool:
    return (
        isinstance(other, torch.Tensor)
        and one.shape == other.shape
        and one.stride() == other.stride()
        and one.storage_offset() == other.storage_offset()
        and _storage(one) == _storage(other)
    )


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr() if tensor.layout == torch.strided else 0


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _normal(like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    wide = torch.complex64 if like.is_complex() else torch.float32
    return torch.randn(like.shape, generator=generator, dtype=wide).to(like.dtype)


@contextmanager
def _seeded(place: Place, observation: Seen) -> Iterator[None]:
    """Seed the generators of both devices, and record whether the CPU generator was used."""
    torch.default_generator.manual_seed(place.seed)
    torch.tpu.manual_seed(place.seed)
    before = torch.get_rng_state()
    # Disable op_db's wrapper_set_seed, which would set the same seed for each call.
    own = mock.patch.object(
        common_methods_invocations,
        "wrapper_set_seed",
        lambda function, *args, **kwargs: function(*args, **kwargs),
    )
    with own:
        yield
    observation.random |= not torch.equal(before, torch.get_rng_state())


_SET_SEED = common_methods_invocations.wrapper_set_seed

Observer = Callable[..., Seen]
