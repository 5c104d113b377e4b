# SPDX-License-Identifier: Apache-2.0
"""Collectives in compiled graphs give the same results as gloo does on CPU tensors."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.utils import _pytree as pytree

from torch_google.tpu.release import V2_6
from torch_google.tpu.testing.ranks import Ranks, caught

_SIZE = 2
_OPS = torch.ops._c10d_functional
# Element counts. 6 elements fit into the messages that ranks exchange before each collective; 6000
# do not.
_LENGTHS = [6, 6000]


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    with Ranks(_SIZE, compiles=True) as started:
        yield started


def _run(rank: int, case: str, *args: Any) -> Any:
    torch._dynamo.reset()
    return globals()[case](rank, *args)


def _compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(function, backend="tpu", **{"fullgraph": True, **options})


def _calls() -> int:
    """Return the number of collectives that the default group has run on the device so far."""
    backend = dist.group.WORLD._get_backend(torch.device("tpu"))
    return int(backend._get_sequence_number_for_group())


def _name() -> str:
    return str(dist.group.WORLD.group_name)


# ---- Each collective


def _wait(value: Any) -> Any:
    return pytree.tree_map(_OPS.wait_tensor, value)


def _reduced(op: str, x: torch.Tensor) -> Any:
    return _wait(_OPS.all_reduce(x, op, _name()))


def _in_place(x: torch.Tensor) -> Any:
    y, z, u = x * 2, x + 1, x * 3
    _OPS.wait_tensor(_OPS.all_reduce_(x, "sum", _name()))
    parts = _wait(_OPS.all_reduce_coalesced_([y, z], "max", _name()))
    return x, parts, _wait(_OPS.broadcast_(u, 1, _name()))


def _into(x: torch.Tensor) -> Any:
    gathered = torch.empty(2 * x.shape[0], device=x.device)
    _OPS.wait_tensor(_OPS.all_gather_into_tensor_out(x, _SIZE, _name(), out=gathered))
    part = torch.empty(x.shape[0] // 2, device=x.device)
    return gathered, _wait(_OPS.reduce_scatter_tensor_out(x, "sum", _SIZE, _name(), out=part))


def _imperative(x: torch.Tensor) -> Any:
    """Call torch.distributed collectives, which Dynamo replaces with functional ones."""
    gathered = torch.empty(2 * x.shape[0], device=x.device)
    dist.all_gather_into_tensor(gathered, x)
    part, other = torch.empty(x.shape[0] // 2, device=x.device), torch.empty_like(x)
    dist.reduce_scatter_tensor(part, x)
    dist.all_to_all_single(other, x)
    dist.all_reduce(x)
    return gathered, part, other, x


_FUNCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    **{f"all_reduce_{op}": partial(_reduced, op) for op in ("sum", "avg", "max", "min", "product")},
    "all_reduce_coalesced": lambda x: _wait(
        _OPS.all_reduce_coalesced([x, x[1:] * 2], "sum", _name())
    ),
    "all_gather": lambda x: _wait(_OPS.all_gather_into_tensor(x, _SIZE, _name())),
    "all_gather_coalesced": lambda x: _wait(
        _OPS.all_gather_into_tensor_coalesced([x, x[1:] * 2], _SIZE, _name())
    ),
    "reduce_scatter": lambda x: _wait(_OPS.reduce_scatter_tensor(x, "sum", _SIZE, _name())),
    "reduce_scatter_coalesced": lambda x: _wait(
        _OPS.reduce_scatter_tensor_coalesced([x, x[2:]], "avg", _SIZE, _name())
    ),
    "all_to_all": lambda x: functional.all_to_all_single(x, None, None, dist.group.WORLD),
    "broadcast": lambda x: _wait(_OPS.broadcast(x, 1, _name())),
    "in_place": _in_place,
    "into": _into,
    "imperative": _imperative,
}


def _each(rank: int, case: str, length: int) -> str:
    function = _FUNCTIONS[case]
    x = (torch.arange(length) % 7).float() + rank
    expected = function(x.clone())
    compiled = _compiled(function)
    for _ in range(2):  # the second call reuses the program
        results = compiled(x.to("tpu"))
        for want, result in zip(
            pytree.tree_leaves(expected), pytree.tree_leaves(results), strict=True
        ):
            torch.testing.assert_close(result.cpu(), want, rtol=1e-6, atol=1e-6)
    return case


@pytest.mark.parametrize("length", _LENGTHS)
@pytest.mark.parametrize("case", _FUNCTIONS)
def test_collective(ranks: Ranks, case: str, length: int) -> None:
    assert ranks.run(_run, "_each", case, length) == [case] * _SIZE


def _dtypes(rank: int) -> list[torch.dtype]:
    wrong = []
    for dtype in (
        *(torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool),
        *(torch.float16, torch.bfloat16, torch.float64, torch.complex64, torch.complex128),
    ):
        torch._dynamo.reset()
        x = (torch.arange(5) + rank).to(dtype).to("tpu")
        result = _compiled(lambda x: functional.all_reduce(x, "sum", dist.group.WORLD))(x)
        dist.all_reduce(x)
        if result.dtype != dtype or not torch.equal(result, x):
            wrong.append(dtype)
    return wrong


def test_dtypes(ranks: Ranks) -> None:
    assert ranks.run(_run, "_dtypes") == [[]] * _SIZE


def _empty(rank: int) -> list[int]:
    function = _compiled(lambda x: functional.all_reduce(x * 2, "sum", dist.group.WORLD))
    return list(function(torch.ones(0, 3, device="tpu")).shape)


def test_a_tensor_without_elements(ranks: Ranks) -> None:
    assert ranks.run(_run, "_empty") == [[0, 3]] * _SIZE


# ---- Order and number of collectives


def _independent(rank: int) -> int:
    group = dist.group.WORLD
    half = dist.new_group([0, 1])

    def function(x: torch.Tensor, y: torch.Tensor) -> Any:
        return (
            functional.all_reduce(x, "sum", group),
            functional.all_reduce(y, "sum", group),
            functional.all_reduce(y * 2, "sum", half),
            functional.all_reduce(x * 3, "sum", group),
        )

    compiled = _compiled(function)
    x, y = torch.ones(5, device="tpu") + rank, torch.ones(50_000, device="tpu") + rank
    before = _calls()
    for _ in range(20):
        sums = [result.sum().item() for result in compiled(x, y)]
        assert sums == [15.0, 150_000.0, 300_000.0, 45.0]
    return _calls() - before


def test_independent_collectives_keep_their_order(ranks: Ranks) -> None:
    assert ranks.run(_run, "_independent") == [60] * _SIZE


def _repeated(rank: int) -> list[int]:
    group = dist.group.WORLD

    def function(x: torch.Tensor) -> torch.Tensor:
        first = functional.all_reduce(x, "sum", group)
        second = functional.all_reduce(x, "sum", group)
        functional.all_reduce(x, "sum", group)  # the function does not use this result
        return (first * second * x).sum()

    counts = []
    compiled = _compiled(function)
    for needs_gradients in (False, True):
        x = torch.ones(3, device="tpu", requires_grad=needs_gradients)
        before = _calls()
        loss = compiled(x)
        counts.append(_calls() - before)
        if needs_gradients:
            loss.backward()
            counts.append(_calls() - before)
    return counts


def test_equal_and_unused_collectives_are_kept(ranks: Ranks) -> None:
    # In v2.6, functional collectives have no gradient.
    assert ranks.run(_run, "_repeated") == [[3, 3, 3 if V2_6 else 5]] * _SIZE


def _mixed(rank: int) -> None:
    compiled = _compiled(lambda x: functional.all_reduce(x @ x, "sum", dist.group.WORLD) + 1)
    for i in range(5):
        before = torch.full((3,), float(i), device="tpu")
        dist.all_reduce(before)
        result = compiled(torch.eye(64, device="tpu") * (i + 1))
        after = torch.full((6000,), float(i), device="tpu")
        dist.all_reduce(after)
        assert before[0].item() == after[5].item() == 2 * i
        assert result[0, 0].item() == 2 * (i + 1) ** 2 + 1


def test_eager_and_compiled_collectives_keep_their_order(ranks: Ranks) -> None:
    ranks.run(_run, "_mixed")


def _differing(rank: int) -> list[float]:
    if rank == 0:
        result = _compiled(lambda x: functional.all_reduce(x * 3, "sum", dist.group.WORLD) - 1)(
            torch.ones(3, device="tpu")
        )
    else:
        result = torch.full((3,), 2.0, device="tpu")
        dist.all_reduce(result)
        result = result - 1
    return result.tolist()


def test_ranks_may_run_different_programs(ranks: Ranks) -> None:
    assert ranks.run(_run, "_differing") == [[4.0] * 3] * _SIZE


# ---- Gradients


def _loss(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    group = dist.group.WORLD
    gathered = functional.all_gather_single_autograd(x @ w, 0, group)
    part = functional.reduce_scatter_single_autograd(gathered @ v, "sum", 0, group)
    mixed = functional.all_to_all_single_autograd(part * 2, None, None, group)
    return (mixed.sin() * part).sum()


def _gradients(rank: int, way: str) -> list[torch.Tensor]:
    torch.manual_seed(rank)
    device = "cpu" if way == "cpu" else "tpu"
    x, w, v = ((torch.randn(4, 4) / 4).to(device).requires_grad_() for _ in range(3))
    loss = (_compiled(_loss) if way == "compiled" else _loss)(x, w, v)
    loss.backward()
    return [each.detach().cpu() for each in (loss, x.grad, w.grad, v.grad)]


@pytest.mark.skipif(
    not hasattr(functional, "all_gather_single_autograd"), reason="v2.6 has other names"
)
@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_gradients(ranks: Ranks, way: str) -> None:
    expected = ranks.run(_run, "_gradients", "cpu")
    for want, results in zip(expected, ranks.run(_run, "_gradients", way), strict=True):
        for one, other in zip(want, results, strict=True):
            torch.testing.assert_close(other, one, rtol=1e-6, atol=1e-6)


def _torch_nn(rank: int, device: str) -> list[torch.Tensor]:
    import torch.distributed.nn.functional as nn_functional

    x = (torch.arange(4.0) + rank).to(device).requires_grad_()
    loss = (nn_functional.all_reduce(x * 2) * x).sum()
    if not V2_6:  # there, gloo lacks the all_to_all that computes this gradient on the CPU
        loss = loss + torch.stack(nn_functional.all_gather(x * 3)).prod(0).sum()
    loss.backward()
    assert x.grad is not None
    return [loss.detach().cpu(), x.grad.cpu()]


def test_gradients_of_torch_distributed_nn(ranks: Ranks) -> None:
    expected, results = (ranks.run(_run, "_torch_nn", device) for device in ("cpu", "tpu"))
    for want, result in zip(expected, results, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(want, result, strict=True))


def _asynchronous(rank: int) -> list[Any]:
    x = torch.ones(3, device="tpu") + rank
    result = functional.all_reduce(x, "sum", dist.group.WORLD)
    kind = type(result).__name__
    return [kind, (result + 1).tolist(), x.tolist()]


def test_eager_functional_collectives_are_asynchronous(ranks: Ranks) -> None:
    for rank, result in enumerate(ranks.run(_run, "_asynchronous")):
        assert result == ["AsyncCollectiveTensor", [4.0] * 3, [1.0 + rank] * 3]


# ---- Sizes


def _sizes(rank: int) -> list[Any]:
    group = dist.group.WORLD
    reduce = _compiled(lambda x: functional.all_reduce(x * 2, "sum", group) + x, dynamic=True)
    results: list[Any] = [reduce(torch.ones(n, device="tpu")).sum().item() for n in (3, 5, 9, 3)]

    def exchange(x: torch.Tensor, sends: list[int], expects: list[int]) -> torch.Tensor:
        return functional.all_to_all_single(x * 2, expects, sends, group)

    compiled = _compiled(exchange, dynamic=True)
    for n in (2, 3, 5):
        sends = [n, 1] if rank == 0 else [n + 1, 2]
        expects = [n, n + 1] if rank == 0 else [1, 2]
        x = torch.arange(float(sum(sends)), device="tpu") + 10 * rank
        results.append(compiled(x, sends, expects).tolist())
    return results


def test_changing_sizes(ranks: Ranks) -> None:
    for rank, results in enumerate(ranks.run(_run, "_sizes")):
        assert results[:4] == [15.0, 25.0, 45.0, 15.0]
        for n, result in zip((2, 3, 5), results[4:], strict=True):
            first = [2.0 * i for i in range(n + 1)]
            second = [2.0 * i + 20 for i in range(n + 3)]
            both = first[:n] + second[: n + 1] if rank == 0 else first[n:] + second[n + 1 :]
            assert result == both


# ---- Errors


def _disagreement(rank: int) -> list[Any]:
    compiled = _compiled(
        lambda x: functional.all_reduce(x + 1, "sum", dist.group.WORLD) * 2, dynamic=False
    )
    errors = [caught(lambda: compiled(torch.ones(3 + rank, device="tpu")))]
    if rank == 0:
        errors.append(caught(lambda: compiled(torch.ones(3, device="tpu"))))
    else:
        x = torch.ones(4, device="tpu")
        errors.append(caught(lambda: (dist.all_reduce(x), x.tolist())))
    return [*errors, compiled(torch.ones(3, device="tpu")).tolist()]


def test_a_disagreement_is_an_error_on_both_ranks(ranks: Ranks) -> None:
    for first, second, result in ranks.run(_run, "_disagreement"):
        for kind, message in (first, second):
            assert kind == "DistBackendError"
            assert message.startswith("tpu: torch.distributed: the ranks of group")
            assert "rank 0: all_reduce SUM of float32[3]" in message
            assert "rank 1: all_reduce SUM of float32[4]" in message
        assert result == [8.0] * 3


def _invalid(rank: int) -> list[Any]:
    group = dist.group.WORLD
    function = _compiled(lambda x: functional.all_reduce(x + 1, "avg", group))
    missing = _compiled(lambda x: _wait(_OPS.all_reduce(x, "sum", "missing")))

    def branch(x: torch.Tensor) -> Any:
        return torch.cond(
            x.sum() > 0,
            lambda x: functional.all_reduce(x, "sum", group),
            lambda x: x * 1,
            (x,),
        )

    return [
        caught(lambda: function(torch.ones(3, device="tpu", dtype=torch.int32))),
        caught(lambda: missing(torch.ones(3, device="tpu"))),
        caught(lambda: _compiled(branch)(torch.ones(3, device="tpu"))),
        function(torch.ones(3, device="tpu")).tolist(),
    ]


def test_invalid_calls(ranks: Ranks) -> None:
    for integers, missing, branch, result in ranks.run(_run, "_invalid"):
        assert integers[0] == "TypeError"
        assert "all_reduce: AVG is not defined for Int" in integers[1]
        assert missing[0] == "DistBackendError"
        assert "process group 'missing', which this process does not have" in missing[1]
        assert branch[0] == "NotImplementedError"
        assert "not in a branch, a loop or an exported program" in branch[1]
        assert result == [2.0] * 3


# ---- The compile cache, and groups that are destroyed and created again


def _cached(rank: int, folder: str, caches: bool) -> list[Any]:
    torch.tpu.set_compile_cache(f"{folder}/{rank}" if caches else None)
    try:
        compiled = _compiled(
            lambda x: functional.all_reduce(x.sin() * 7, "sum", dist.group.WORLD).cos()
        )
        x = torch.full((3,), 0.5, device="tpu")
        before = torch.tpu.metrics()
        result = compiled(x).tolist()
        after = torch.tpu.metrics()
        return [result, after.disk_hits - before.disk_hits, after.compiles - before.compiles]
    finally:
        torch.tpu.set_compile_cache(None)


def _cached_on_one(rank: int, folder: str) -> list[Any]:
    return _cached(rank, folder, rank == 0)


def test_one_rank_has_its_program_from_the_cache(ranks: Ranks, tmp_path: Path) -> None:
    (result, _, compiles), other = ranks.run(_run, "_cached", str(tmp_path), True)
    assert (result, compiles) == (other[0], 1)
    first, second = ranks.run(_run, "_cached_on_one", str(tmp_path))
    assert first[0] == second[0] == result
    assert first[1:] == [1, 0]
    assert second[1:] == [0, 1]


def _again(rank: int, store: str) -> list[Any]:
    name = _name()
    compiled = _compiled(lambda x: _wait(_OPS.all_reduce(x * 2, "sum", name)))
    x = torch.ones(2, device="tpu")
    results: list[Any] = [compiled(x)[0].item()]
    dist.destroy_process_group()
    results.append(caught(lambda: compiled(x))[0])
    dist.init_process_group(store=dist.FileStore(store, _SIZE), rank=rank, world_size=_SIZE)
    assert _name() == name
    return [*results, compiled(x)[0].item()]


def test_a_group_is_found_by_its_name(ranks: Ranks, tmp_path: Path) -> None:
    expected = [4.0, "DistBackendError", 4.0]
    assert ranks.run(_run, "_again", str(tmp_path / "store")) == [expected] * _SIZE


def _left_alone(rank: int) -> tuple[str, str]:
    if rank == 1:
        time.sleep(100)
    compiled = _compiled(lambda x: functional.all_reduce(x + 1, "sum", dist.group.WORLD))
    return caught(lambda: compiled(torch.ones(6000, device="tpu")))


def test_a_rank_that_dies(ranks: Ranks) -> None:  # must be the last test, because it kills a rank
    ranks.start(_run, "_left_alone")
    time.sleep(1)
    ranks.signal(1, signal.SIGKILL)
    kind, message = ranks.result(0)
    assert kind == "DistBackendError"
    assert "all_reduce SUM of float32[6000]" in message
    assert "rank 1: no answer" in message
