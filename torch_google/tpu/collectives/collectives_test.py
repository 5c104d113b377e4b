# SPDX-License-Identifier: Apache-2.0
"""Each torch.distributed collective gives the right result on tpu tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from tools.par.testing.budget import only_full
from torch_google.tpu.testing.ranks import Ranks

_SIZE = 2
_MODES = ["strict", "fused", "debug"]
# Element counts. 6 elements fit into the messages that ranks exchange before each collective; 6000
# do not.
_LENGTHS = [6, 6000]


@pytest.fixture(scope="module", params=["host", *only_full("xla")])
def ranks(request: pytest.FixtureRequest) -> Iterator[Ranks]:
    with Ranks(_SIZE, environ={"TORCH_TPU_COLLECTIVES": request.param}) as started:
        yield started


def _values(rank: int, length: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return a rank's input as a CPU tensor."""
    return (torch.arange(length) % 7 + rank).to(dtype)


def _both(length: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [_values(rank, length, dtype) for rank in range(_SIZE)]


def _run(rank: int, mode: str, case: str, *args: Any) -> Any:
    with torch.tpu.eager_mode(mode):
        return globals()[case](rank, *args)


# ---- Reductions

_REDUCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "SUM": lambda stack: stack.sum(0),
    "AVG": lambda stack: stack.mean(0),
    "PRODUCT": lambda stack: stack.prod(0),
    "MIN": lambda stack: stack.amin(0),
    "MAX": lambda stack: stack.amax(0),
}
_BITS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "BAND": torch.bitwise_and,
    "BOR": torch.bitwise_or,
    "BXOR": torch.bitwise_xor,
}


def _all_reduce(rank: int, op: str, length: int, dtype: torch.dtype) -> torch.Tensor:
    value = _values(rank, length, dtype).to("tpu")
    dist.all_reduce(value, op=getattr(ReduceOp, op))
    return value.cpu()


@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("op", _REDUCTIONS)
def test_all_reduce(ranks: Ranks, op: str, mode: str, length: int) -> None:
    expected = _REDUCTIONS[op](torch.stack(_both(length)))
    for result in ranks.run(_run, mode, "_all_reduce", op, length, torch.float32):
        assert torch.equal(result, expected)


@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize(
    "dtype",
    [
        torch.bfloat16,
        torch.float16,
        torch.float64,
        torch.int8,
        torch.uint8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.uint16,
        torch.uint32,
        torch.complex64,
        torch.complex128,
        torch.float8_e5m2,
    ],
)
def test_all_reduce_of_a_dtype(ranks: Ranks, dtype: torch.dtype, length: int) -> None:
    first, second = _both(length, dtype)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    expected = (first.to(wide) + second.to(wide)).to(dtype)
    for result in ranks.run(_run, "strict", "_all_reduce", "SUM", length, dtype):
        assert result.dtype == dtype
        assert torch.equal(result.to(wide), expected.to(wide))


@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize("op", [*_REDUCTIONS.keys() - {"AVG"}, *_BITS])
def test_all_reduce_of_bools(ranks: Ranks, op: str, length: int) -> None:
    first, second = _both(length, torch.bool)
    if op in _BITS:
        expected = _BITS[op](first, second)
    else:
        expected = _REDUCTIONS[op](torch.stack([first, second]).long()).bool()
    for result in ranks.run(_run, "strict", "_all_reduce", op, length, torch.bool):
        assert torch.equal(result, expected)


@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize("op", _BITS)
def test_all_reduce_of_bits(ranks: Ranks, op: str, length: int) -> None:
    expected = _BITS[op](*_both(length, torch.int32))
    for result in ranks.run(_run, "strict", "_all_reduce", op, length, torch.int32):
        assert torch.equal(result, expected)


def _premultiplied(rank: int, factor: Any, length: int) -> torch.Tensor:
    if isinstance(factor, list):
        factor = torch.tensor(factor, device="tpu")
    value = _values(rank, length).to("tpu")
    dist.all_reduce(value, op=dist._make_nccl_premul_sum(factor))
    return value.cpu()


@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize("factor", [0.5, [0.25]])
def test_premultiplied_sum(ranks: Ranks, factor: Any, length: int) -> None:
    number = factor[0] if isinstance(factor, list) else factor
    expected = sum(value * number for value in _both(length))
    for result in ranks.run(_run, "strict", "_premultiplied", factor, length):
        assert torch.equal(result, expected)


def _of_a_view(rank: int, length: int) -> torch.Tensor:
    whole = torch.zeros(2, length, device="tpu")
    whole[0] = 5.0
    whole[1] = _values(rank, length).to("tpu")
    dist.all_reduce(whole[1])
    spread = torch.zeros(length, 2, device="tpu")
    spread[:, 1] = whole[1]
    dist.all_reduce(spread[:, 1])
    return torch.stack([whole[0].cpu(), whole[1].cpu(), spread[:, 0].cpu(), spread[:, 1].cpu()])


@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize("mode", _MODES)
def test_all_reduce_of_a_view_writes_only_the_view(ranks: Ranks, mode: str, length: int) -> None:
    total = sum(_both(length))
    expected = torch.stack([torch.full((length,), 5.0), total, torch.zeros(length), 2 * total])
    for result in ranks.run(_run, mode, "_of_a_view", length):
        assert torch.equal(result, expected)


def _chain(rank: int, length: int) -> torch.Tensor:
    value = _values(rank, length).to("tpu")
    works = []
    for _ in range(5):
        works.append(dist.all_reduce(value, async_op=True))
    other = value / 32
    for work in works:
        work.wait()
    return other.cpu()


@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize("mode", _MODES)
def test_a_chain_of_pending_collectives(ranks: Ranks, mode: str, length: int) -> None:
    for result in ranks.run(_run, mode, "_chain", length):
        assert torch.equal(result, sum(_both(length)) / 2)


# ---- Data movement


def _broadcast(rank: int, length: int, root: int) -> torch.Tensor:
    value = _values(rank, length).to("tpu")
    dist.broadcast(value, root)
    return value.cpu()


def _reduce(rank: int, length: int, root: int) -> torch.Tensor:
    value = _values(rank, length).to("tpu")
    dist.reduce(value, root)
    return value.cpu()


@pytest.mark.parametrize("root", range(_SIZE))
@pytest.mark.parametrize("length", _LENGTHS)
def test_broadcast_and_reduce(ranks: Ranks, length: int, root: int) -> None:
    for result in ranks.run(_run, "strict", "_broadcast", length, root):
        assert torch.equal(result, _values(root, length))
    for rank, result in enumerate(ranks.run(_run, "strict", "_reduce", length, root)):
        expected = sum(_both(length)) if rank == root else _values(rank, length)
        assert torch.equal(result, expected)


def _all_gather(rank: int, length: int, uneven: int) -> list[torch.Tensor]:
    lengths = [length + uneven * peer for peer in range(_SIZE)]
    outputs = [torch.empty(count, device="tpu") for count in lengths]
    dist.all_gather(outputs, _values(rank, lengths[rank]).to("tpu"))
    return [output.cpu() for output in outputs]


@pytest.mark.parametrize("uneven", [0, 3])
@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize("mode", _MODES)
def test_all_gather(ranks: Ranks, mode: str, length: int, uneven: int) -> None:
    for results in ranks.run(_run, mode, "_all_gather", length, uneven):
        for peer, result in enumerate(results):
            assert torch.equal(result, _values(peer, length + uneven * peer))


def _gathered_views(rank: int, length: int) -> torch.Tensor:
    whole = torch.full((_SIZE + 1, length), -1.0, device="tpu")
    dist.all_gather(list(whole[:_SIZE].unbind()), _values(rank, length).to("tpu"))
    return whole.cpu()


@pytest.mark.parametrize("length", _LENGTHS)
def test_all_gather_into_views_of_one_storage(ranks: Ranks, length: int) -> None:
    expected = torch.stack([*_both(length), torch.full((length,), -1.0)])
    for result in ranks.run(_run, "strict", "_gathered_views", length):
        assert torch.equal(result, expected)


def _into_tensor(rank: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    gathered = torch.empty(_SIZE * length, device="tpu")
    dist.all_gather_into_tensor(gathered, _values(rank, length).to("tpu"))
    part = torch.empty(length, device="tpu")
    dist.reduce_scatter_tensor(part, gathered * (rank + 1))
    return gathered.cpu(), part.cpu()


@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize("mode", _MODES)
def test_all_gather_and_reduce_scatter_of_a_tensor(ranks: Ranks, mode: str, length: int) -> None:
    for rank, (gathered, part) in enumerate(ranks.run(_run, mode, "_into_tensor", length)):
        assert torch.equal(gathered, torch.cat(_both(length)))
        assert torch.equal(part, _values(rank, length) * sum(range(1, _SIZE + 1)))


def _reduce_scatter(rank: int, length: int, uneven: int, op: str) -> torch.Tensor:
    lengths = [length + uneven * peer for peer in range(_SIZE)]
    output = torch.empty(lengths[rank], device="tpu")
    inputs = [_values(rank + peer, lengths[peer]).to("tpu") for peer in range(_SIZE)]
    dist.reduce_scatter(output, inputs, op=getattr(ReduceOp, op))
    return output.cpu()


@pytest.mark.parametrize("op", ["SUM", "AVG", "MAX"])
@pytest.mark.parametrize("uneven", [0, 3])
@pytest.mark.parametrize("length", _LENGTHS)
def test_reduce_scatter(ranks: Ranks, length: int, uneven: int, op: str) -> None:
    results = ranks.run(_run, "strict", "_reduce_scatter", length, uneven, op)
    for rank, result in enumerate(results):
        parts = [_values(peer + rank, length + uneven * rank) for peer in range(_SIZE)]
        assert torch.equal(result, _REDUCTIONS[op](torch.stack(parts)))


def _gather_and_scatter(rank: int, length: int, root: int) -> tuple[Any, torch.Tensor]:
    value = _values(rank, length).to("tpu")
    gathered = [torch.empty(length, device="tpu") for _ in range(_SIZE)] if rank == root else None
    dist.gather(value, gathered, dst=root)
    part = torch.empty(length, device="tpu")
    parts = None
    if rank == root:
        parts = [_values(10 * peer, length).to("tpu") for peer in range(_SIZE)]
    dist.scatter(part, parts, src=root)
    return gathered and [each.cpu() for each in gathered], part.cpu()


@pytest.mark.parametrize("root", range(_SIZE))
@pytest.mark.parametrize("length", _LENGTHS)
def test_gather_and_scatter(ranks: Ranks, length: int, root: int) -> None:
    results = ranks.run(_run, "strict", "_gather_and_scatter", length, root)
    for rank, (gathered, part) in enumerate(results):
        assert torch.equal(part, _values(10 * rank, length))
        if rank == root:
            assert all(map(torch.equal, gathered, _both(length)))
        else:
            assert gathered is None


def _all_to_all(rank: int, length: int) -> list[torch.Tensor]:
    # Rank r sends (r + 1) * length elements to rank 0, and (r + 2) * length elements to rank 1.
    inputs = [
        _values(10 * rank + peer, (rank + peer + 1) * length).to("tpu") for peer in range(_SIZE)
    ]
    outputs = [torch.empty((rank + peer + 1) * length, device="tpu") for peer in range(_SIZE)]
    dist.all_to_all(outputs, inputs)
    single = torch.empty(sum(output.numel() for output in outputs), device="tpu")
    sizes = [(rank + peer + 1) * length for peer in range(_SIZE)]
    dist.all_to_all_single(single, torch.cat(inputs), sizes, sizes)
    even = torch.empty(_SIZE * length, device="tpu")
    dist.all_to_all_single(even, _values(rank, _SIZE * length).to("tpu"))
    return [*(output.cpu() for output in outputs), single.cpu(), even.cpu()]


@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize("mode", _MODES)
def test_all_to_all(ranks: Ranks, mode: str, length: int) -> None:
    for rank, (*lists, single, even) in enumerate(ranks.run(_run, mode, "_all_to_all", length)):
        parts = [_values(10 * peer + rank, (rank + peer + 1) * length) for peer in range(_SIZE)]
        assert all(map(torch.equal, lists, parts))
        assert torch.equal(single, torch.cat(parts))
        slices = [_values(peer, _SIZE * length).chunk(_SIZE)[rank] for peer in range(_SIZE)]
        assert torch.equal(even, torch.cat(slices))


# ---- Point-to-point messages


def _messages(rank: int, length: int) -> torch.Tensor:
    peer = 1 - rank
    outgoing = _values(rank, length).to("tpu")
    incoming = torch.empty(length, device="tpu")
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, outgoing, peer), dist.P2POp(dist.irecv, incoming, peer)]
    )
    for work in works:
        work.wait()
    # Messages must be matched by tag, in whatever order they are sent and received.
    results = [incoming.cpu()]
    if rank == 0:
        sent = [dist.isend(outgoing + tag, peer, tag=tag) for tag in range(3)]
        for work in sent:
            work.wait()
        anonymous = torch.empty(length, device="tpu")
        assert dist.recv(anonymous) == peer
        results.append(anonymous.cpu())
    else:
        received = [torch.empty(length, device="tpu") for _ in range(3)]
        waiting = [dist.irecv(received[tag], peer, tag=tag) for tag in (2, 0, 1)]
        for work in waiting:
            work.wait()
        assert all(torch.equal(received[tag].cpu(), _values(0, length) + tag) for tag in range(3))
        dist.send(outgoing * 2, peer)
        results.append(_values(1, length) * 2)
    return torch.stack(results)


@pytest.mark.parametrize("length", [0, *_LENGTHS])
@pytest.mark.parametrize("mode", _MODES)
def test_messages(ranks: Ranks, mode: str, length: int) -> None:
    for rank, result in enumerate(ranks.run(_run, mode, "_messages", length)):
        assert torch.equal(result, torch.stack([_values(1 - rank, length), _values(1, length) * 2]))


# ---- Coalesced collectives, subgroups, objects, CPU tensors, empty tensors


def _coalesced(rank: int, length: int) -> list[torch.Tensor]:
    values = [_values(rank + index, length + index).to("tpu") for index in range(3)]
    with dist._coalescing_manager(device=torch.device("tpu"), async_ops=True) as block:
        for value in values:
            dist.all_reduce(value)
    block.wait()
    more = [_values(rank, length).to("tpu"), _values(rank, 3).to("tpu")]
    dist.all_reduce_coalesced(more)
    outputs = [[torch.empty(length, device="tpu")] for _ in range(_SIZE)]
    dist.all_gather_coalesced(outputs, [_values(rank, length).to("tpu")])
    return [each.cpu() for each in (*values, *more, *(output[0] for output in outputs))]


@pytest.mark.filterwarnings("ignore:torch.distributed")
@pytest.mark.parametrize("length", _LENGTHS)
def test_coalesced(ranks: Ranks, length: int) -> None:
    expected = [
        *(2 * _values(index, length + index) + 1 for index in range(3)),
        sum(_both(length)),
        sum(_both(3)),
        *_both(length),
    ]
    for results in ranks.run(_run, "fused", "_coalesced", length):
        assert all(map(torch.equal, results, expected))


def _groups(rank: int) -> list[Any]:
    alone = [dist.new_group([peer]) for peer in range(_SIZE)][rank]
    pair = dist.new_group(list(reversed(range(_SIZE))))
    value = torch.ones(3, device="tpu")
    dist.all_reduce(value, group=alone)
    dist.all_reduce(value, group=pair)
    objects: list[Any] = [None] * _SIZE
    dist.all_gather_object(objects, {"rank": rank}, group=pair)
    shared = [{"root": rank}]
    dist.broadcast_object_list(shared, src=1, device=torch.device("tpu"))
    dist.barrier(group=pair)
    dist.barrier()
    dist.destroy_process_group(pair)
    on_cpu = torch.ones(2)
    dist.all_reduce(on_cpu)
    return [value.tolist(), objects, shared, on_cpu.tolist()]


def test_groups_objects_and_cpu_tensors(ranks: Ranks) -> None:
    objects = [{"rank": rank} for rank in range(_SIZE)]
    for result in ranks.run(_groups):
        assert result == [[2.0] * 3, objects, [{"root": 1}], [2.0, 2.0]]


def _empty(rank: int) -> list[Any]:
    value = torch.empty(0, 3, device="tpu")
    dist.all_reduce(value)
    dist.broadcast(value, 0)
    gathered = torch.empty(0, device="tpu")
    dist.all_gather_into_tensor(gathered, torch.empty(0, device="tpu"))
    dist.reduce_scatter_tensor(torch.empty(0, device="tpu"), gathered)
    # Both ranks send to rank 0 only.
    sizes = [[4, 0], [4, 0]][rank]
    output = torch.empty(8 if rank == 0 else 0, device="tpu")
    takes = [4, 4] if rank == 0 else [0, 0]
    dist.all_to_all_single(output, torch.full((4,), float(rank), device="tpu"), takes, sizes)
    return [list(value.shape), output.tolist()]


def test_empty_tensors(ranks: Ranks) -> None:
    first, second = ranks.run(_empty)
    assert first == [[0, 3], [0.0] * 4 + [1.0] * 4]
    assert second == [[0, 3], []]


# ---- Work and futures


def _futures(rank: int, length: int) -> list[Any]:
    value = _values(rank, length).to("tpu")
    work = dist.all_reduce(value, async_op=True)

    def again(future: torch.futures.Future[Any]) -> torch.Tensor:
        # A callback on one collective's future may wait for another collective in the same group.
        result = future.value()[0]
        dist.all_reduce(result, async_op=True).get_future().wait()
        return result / 2

    doubled = work.get_future().then(again).wait()
    assert work.is_completed()
    assert work.is_success()
    assert work.wait()
    return [doubled.cpu(), value.cpu()]


@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize("mode", _MODES)
def test_futures(ranks: Ranks, mode: str, length: int) -> None:
    total = sum(_both(length))
    for doubled, value in ranks.run(_run, mode, "_futures", length):
        assert torch.equal(doubled, total)
        assert torch.equal(value, 2 * total)
