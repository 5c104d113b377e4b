# SPDX-License-Identifier: Apache-2.0

import pytest
import torch
from torch._higher_order_ops import scan
from torch.nn.functional import dropout
from torch.utils.checkpoint import checkpoint

from torch_google.tpu.release import V2_6


def test_a_seed_repeats_and_calls_differ() -> None:
    function = torch.compile(lambda: torch.randn(8, device="tpu"))
    torch.manual_seed(3)
    first, second = function(), function()
    torch.tpu.manual_seed(3)
    assert torch.equal(function(), first)
    assert not torch.equal(first, second)


def test_two_draws_of_one_graph_differ() -> None:
    function = torch.compile(lambda: (torch.rand(8, device="tpu"), torch.rand(8, device="tpu")))
    first, second = function()
    assert not torch.equal(first, second)


def test_the_backward_pass_drops_what_the_forward_pass_dropped() -> None:
    function = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.5))
    x = torch.ones(256, device="tpu", requires_grad=True)
    y = function(x)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(y.detach(), x.grad)
    assert 64 < int((y == 0).sum()) < 192


def test_what_a_checkpoint_recomputes_is_what_was() -> None:
    weight = torch.rand(32, 32, device="tpu", requires_grad=True)

    def inner(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(torch.sin(x @ weight), 0.5)

    function = torch.compile(lambda x: checkpoint(inner, x, use_reentrant=False), fullgraph=True)
    x = torch.rand(4, 32, device="tpu", requires_grad=True)
    y = function(x)
    y.sum().backward()
    mask = (y != 0) * 2.0
    expected = (torch.cos(x @ weight) * mask) @ weight.t()
    assert x.grad is not None
    torch.testing.assert_close(x.grad.cpu(), expected.detach().cpu())


def test_draws_of_branches() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + torch.rand_like(x), lambda x: x * 1.0, (x,))

    compiled = torch.compile(function, fullgraph=True)
    x = torch.ones(8, device="tpu")
    first, second = compiled(x), compiled(x)
    assert not torch.equal(first, second)
    assert bool(((first >= 1) & (first < 2)).all())


def test_a_branch_that_draws_has_no_gradient() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: dropout(x, 0.5), lambda x: x * 1.0, (x,))

    x = torch.ones(64, device="tpu", requires_grad=True)
    with pytest.raises(Exception, match="gradient of cond would draw different.*Draw them before"):
        torch.compile(function, fullgraph=True)(x)
    assert function(torch.ones(3)).shape == (3,)
    with torch.no_grad():
        assert set(torch.compile(function, fullgraph=True)(x).tolist()) == {0.0, 2.0}


def test_what_is_drawn_before_a_branch_has_one() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        mask = (torch.rand_like(x) > 0.5) * 2.0
        return torch.cond(x.sum() > 0, lambda x, m: x * m, lambda x, m: x + m, (x, mask))

    x = torch.ones(64, device="tpu", requires_grad=True)
    y = torch.compile(function, fullgraph=True)(x)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(y.detach(), x.grad)
    assert set(y.tolist()) == {0.0, 2.0}


@pytest.mark.skipif(V2_6, reason="the gradient of v2.6's cond computes the branch again")
def test_what_only_the_forward_pass_draws_is_no_obstacle() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(
            x.sum() > 0, lambda x: x * 3 + torch.rand_like(x), lambda x: x * 1.0, (x,)
        )

    x = torch.ones(64, device="tpu", requires_grad=True)
    torch.compile(function, fullgraph=True)(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0] * 64


@pytest.mark.skipif(V2_6, reason="v2.6's scan has no gradient")
def test_a_scan_drops_in_its_gradient_what_it_dropped() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        start = torch.zeros(3, device=x.device)
        total: torch.Tensor = scan(lambda c, row: (c + dropout(row, 0.5), row * 1), start, x)[0]
        return total

    x = torch.ones(20, 3, device="tpu", requires_grad=True)
    y = torch.compile(function, fullgraph=True)(x)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(y.detach(), x.grad.sum(0))
    assert set(x.grad.flatten().tolist()) == {0.0, 2.0}
