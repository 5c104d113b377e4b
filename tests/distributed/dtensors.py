# SPDX-License-Identifier: Apache-2.0
"""Test cases for DTensor: placements, redistribution, operators, random numbers, local_map."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_tensor,
    empty,
    full,
    ones,
    rand,
    randn,
    zeros,
)
from torch.distributed.tensor.experimental import local_map
from torch.distributed.tensor.placement_types import _StridedShard
from torch.nn import functional

from tests.distributed import problems
from tests.distributed.rank import Rank, equal, same
from tests.distributed.registry import case

# The tolerance for matmuls and sums, because several ranks add the terms in a different order than
# one process does.
_SUMS = 2e-5


def _value(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def _distribute(value: torch.Tensor, mesh: DeviceMesh, placements: Sequence[Placement]) -> DTensor:
    """Return a DTensor of `value`.

    For Partial(), the ranks get multiples of `value` that add up to it exactly.
    """
    sharded = distribute_tensor(
        value.to(mesh.device_type),
        mesh,
        [Replicate() if p.is_partial() else p for p in placements],
    )
    local = sharded.to_local()
    for dimension, placement in enumerate(placements):
        if placement.is_partial():
            index, size = mesh.get_local_rank(dimension), mesh.size(dimension)
            local = local * (2.0 - size if index == 0 else 1.0)
    return DTensor.from_local(
        local, mesh, placements, run_check=False, shape=value.shape, stride=value.stride()
    )


def _round_trips(
    value: torch.Tensor, mesh: DeviceMesh, placements: Sequence[Sequence[Placement]]
) -> float:
    """Redistribute between all pairs of placements, and compare the full tensor each time.

    Partial placements occur only as sources, because torch does not redistribute to them.
    """
    largest = 0.0
    for source, target in itertools.product(placements, repeat=2):
        tensor = _distribute(value, mesh, source)
        if not any(placement.is_partial() for placement in target):
            tensor = tensor.redistribute(mesh, target)
            assert tuple(tensor.placements) == tuple(target)
        try:
            largest = max(largest, same(tensor.full_tensor(), value, tolerance=_SUMS))
        except AssertionError as error:
            raise AssertionError(f"{source} to {target}: {error}") from error
    return largest


@case()
def dtensor_all_pairs(rank: Rank) -> float:
    """Redistribute between all pairs of placements on a 1D mesh, with even and uneven shards."""
    placements: list[list[Placement]] = [[Shard(0)], [Shard(1)], [Shard(2)], [Replicate()]]
    mesh = rank.mesh()
    even = _round_trips(_value(4, 6, 2), mesh, [*placements, [Partial()]])
    uneven = _round_trips(_value(5, 1, 3), mesh, [*placements, [Partial()]])
    return max(even, uneven)


@case(ranks=4)
def dtensor_all_pairs_2d(rank: Rank) -> float:
    """Redistribute between all pairs of placements on a 2 x 2 mesh, including nested shards."""
    single = [Shard(0), Shard(1), Replicate(), Partial()]
    pairs = [list(pair) for pair in itertools.product(single, repeat=2)]
    return _round_trips(_value(4, 6), rank.mesh(2, 2), pairs)


@case(ranks=4)
def dtensor_strided_shards(rank: Rank) -> float:
    """Shard rows over the second mesh dimension first, as FSDP combined with TP does."""
    value = _value(8, 3)
    mesh = rank.mesh(2, 2)
    row, column = mesh.get_coordinate() or (0, 0)
    # Split the rows over the second mesh dimension, then each part over the first one.
    local = value.chunk(2)[column].chunk(2)[row].to(rank.device)
    strided = DTensor.from_local(local, mesh, [_StridedShard(0, split_factor=2), Shard(0)])
    largest = same(strided.full_tensor(), value)
    for target in ([Replicate(), Replicate()], [Shard(0), Replicate()], [Replicate(), Shard(0)]):
        largest = max(largest, same(strided.redistribute(mesh, target).full_tensor(), value))
    return largest


@case()
def dtensor_partials(rank: Rank) -> float:
    """Redistribute Partial() with each reduction to all other placements."""
    parts = [_value(4, 4, seed=seed) for seed in range(rank.size)]
    mine = parts[rank.index].to(rank.device)
    mesh = rank.mesh()
    expected = {
        "sum": torch.stack(parts).sum(0),
        "avg": torch.stack(parts).mean(0),
        "max": torch.stack(parts).amax(0),
        "min": torch.stack(parts).amin(0),
        "product": torch.stack(parts).prod(0),
    }
    largest = 0.0
    for kind, value in expected.items():
        part = DTensor.from_local(mine, mesh, [Partial(kind)])
        for target in (Replicate(), Shard(0), Shard(1)):
            moved = part.redistribute(mesh, [target])
            largest = max(largest, same(moved.full_tensor(), value))
    return largest


def _operators() -> Iterator[tuple[str, Callable[..., Any], list[torch.Tensor]]]:
    """Yield the name, the function and the arguments of each operator under test."""
    x, y = _value(4, 6), _value(6, 8, seed=1)
    binary = [x, _value(4, 6, seed=2)]
    yield "matmul", torch.matmul, [x, y]
    yield "addmm", lambda a, b, c: torch.addmm(c, a, b), [x, y, _value(8, seed=3)]
    yield "linear", functional.linear, [x, y.t().contiguous()]
    yield "add", torch.add, binary
    yield "mul", torch.mul, binary
    yield "where", lambda a, b: torch.where(a > b, a, b), binary
    yield "gelu", functional.gelu, [x]
    yield "softmax", functools.partial(torch.softmax, dim=1), [x]
    yield "log_softmax", functools.partial(torch.log_softmax, dim=0), [x]
    yield "layer_norm", lambda a: functional.layer_norm(a, (6,)), [x]
    yield "sum", torch.sum, [x]
    yield "sum_rows", functools.partial(torch.sum, dim=0), [x]
    yield "mean", functools.partial(torch.mean, dim=1), [x]
    yield "amax", functools.partial(torch.amax, dim=0), [x]
    yield "var", functools.partial(torch.var, dim=0), [x]
    yield "norm", torch.linalg.vector_norm, [x]
    yield "transpose", torch.t, [x]
    yield "view", lambda a: a.view(2, 2, 6), [x]
    yield "cat", lambda a, b: torch.cat([a, b]), binary
    yield "stack", lambda a, b: torch.stack([a, b]), binary
    yield "slice", lambda a: a[1:3], [x]
    yield "split", lambda a: torch.add(*a.split(3, 1)), [x]
    yield "sort", lambda a: torch.sort(a, 0)[0], [x]
    yield "topk", lambda a: torch.topk(a, 2)[0], [x]
    yield "cumsum", functools.partial(torch.cumsum, dim=0), [x]
    yield "gather", lambda a: torch.gather(a, 0, a.argsort(0)), [x]
    yield "bmm", torch.bmm, [_value(2, 3, 4), _value(2, 4, 5, seed=4)]
    yield "heads", lambda a: a.view(4, 2, 4) @ a.view(4, 4, 2), [_value(4, 8)]


@case()
def dtensor_operators(rank: Rank) -> float:
    """Compare values and gradients of operators, for all placements of the first argument."""
    mesh = rank.mesh()
    largest = 0.0
    for name, function, arguments in _operators():
        leaves = [a.clone().requires_grad_() for a in arguments]
        expected = function(*leaves)
        expected.square().sum().backward()
        for placement in (Shard(0), Shard(1), Replicate()):
            distributed = [
                distribute_tensor(a.to(rank.device), mesh, [placement if i == 0 else Replicate()])
                for i, a in enumerate(arguments)
            ]
            for argument in distributed:
                argument.requires_grad_()
            try:
                result = function(*distributed)
                largest = max(
                    largest, same(result.full_tensor(), expected.detach(), tolerance=_SUMS)
                )
                result.square().sum().redistribute(mesh, [Replicate()]).to_local().backward()
                for argument, leaf in zip(distributed, leaves, strict=True):
                    assert leaf.grad is not None
                    gradient = argument.grad
                    assert isinstance(gradient, DTensor)
                    same(gradient.full_tensor(), leaf.grad, tolerance=_SUMS)
            except Exception as error:
                raise AssertionError(f"{name}, {placement}: {error}") from error
    return largest


@case()
def dtensor_factories(rank: Rank) -> float:
    mesh = rank.mesh()
    for placement in (Shard(0), Replicate()):
        assert empty(5, 2, device_mesh=mesh, placements=[placement]).shape == (5, 2)
        for factory, number in (
            (zeros, 0.0),
            (ones, 1.0),
            (functools.partial(full, fill_value=7.0), 7.0),
        ):
            value = factory((5, 2), device_mesh=mesh, placements=[placement])
            same(value.full_tensor(), torch.full((5, 2), number))
    return 0.0


@case()
def dtensor_random(rank: Rank) -> float:
    """Check that random shards differ, random replicas agree, and a seed reproduces both."""
    mesh = rank.mesh()
    for factory in (rand, randn):
        for placement in (Shard(0), Shard(1)):
            first, again = (_seeded(factory, mesh, placement) for _ in range(2))
            assert first.unique().numel() == 24, "shards repeat each other's numbers"
            same(again, first)
        local = factory((4, 6), device_mesh=mesh, placements=[Replicate()]).to_local()
        total = local.clone()
        dist.all_reduce(total, dist.ReduceOp.MAX)
        same(total, local.cpu())
    x = ones((64, 8), device_mesh=mesh, placements=[Shard(0)])
    top, bottom = functional.dropout(x, 0.5).full_tensor().cpu().chunk(2)
    assert not top.equal(bottom), "ranks drop the same elements"
    x = distribute_tensor(torch.zeros(4, 6).to(rank.device), mesh, [Shard(0)])
    for fill in (DTensor.uniform_, torch.nn.init.normal_, torch.nn.init.kaiming_uniform_):
        assert fill(x).full_tensor().unique().numel() == 24
    return 0.0


def _seeded(factory: Callable[..., Any], mesh: DeviceMesh, placement: Placement) -> torch.Tensor:
    torch.manual_seed(5)
    value: torch.Tensor = factory((4, 6), device_mesh=mesh, placements=[placement])
    return value.full_tensor().cpu()


@case()
def dtensor_local_map(rank: Rank) -> float:
    mesh = rank.mesh()
    x, y = _value(4, 6), _value(6, 8, seed=1)

    @functools.partial(
        local_map,
        out_placements=[Partial()],
        in_placements=([Shard(1)], [Shard(0)]),
        device_mesh=mesh,
    )
    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        assert not isinstance(a, DTensor)
        return a @ b

    a = distribute_tensor(x.to(rank.device), mesh, [Shard(1)])
    b = distribute_tensor(y.to(rank.device), mesh, [Shard(0)])
    return same(product(a, b).full_tensor(), x @ y, tolerance=_SUMS)


@case()
def dtensor_module(rank: Rank) -> float:
    """Train a model whose parameters were distributed one by one."""
    problem = problems.mlp()
    model = problem.model().to(rank.device)
    mesh = rank.mesh()
    placements = {"up.weight": Shard(0), "up.bias": Shard(0), "down.weight": Shard(1)}

    def distribute(name: str, module: torch.nn.Module, mesh: DeviceMesh) -> None:
        for key, parameter in list(module.named_parameters(recurse=False)):
            placement = placements.get(f"{name}.{key}", Replicate())
            value = distribute_tensor(parameter.detach(), mesh, [placement])
            module.register_parameter(key, torch.nn.Parameter(value))

    torch.distributed.tensor.distribute_module(
        model,
        mesh,
        distribute,
        input_fn=lambda module, inputs, mesh: DTensor.from_local(
            inputs[0], mesh, [Replicate()], run_check=False
        ),
        output_fn=lambda module, outputs, mesh: outputs.redistribute(
            mesh, [Replicate()]
        ).to_local(),
    )
    optimizer = problems.adam(model.parameters())
    losses = problem.train(model, optimizer, rank, lambda batch: batch.to(rank.device))
    return equal(losses, problem.alone())
