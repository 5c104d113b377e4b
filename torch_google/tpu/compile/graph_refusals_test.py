# SPDX-License-Identifier: Apache-2.0
"""A graph with an operator call that the CPU rejects raises the CPU's error when it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

_INT = torch.arange(6).view(2, 3)
_COMPLEX = torch.complex(_INT.float(), -_INT.float())
_BOOL = _INT > 2

# AOTAutograd decomposes some of these operators before the backend sees them. The others have
# lowerings, so the backend sees them.
CALLS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "softmax of integers": (lambda x: x.softmax(0), (_INT,)),
    "gelu of integers": (functional.gelu, (_INT,)),
    "loss of integers": (functional.smooth_l1_loss, (_INT, _INT)),
    "std of integers": (torch.std, (_INT,)),
    "order of complex": (torch.lt, (_COMPLEX, _COMPLEX)),
    "sort of complex": (torch.sort, (_COMPLEX,)),
    "clamp of complex": (lambda x: x.clamp(0, 1), (_COMPLEX,)),
    "relu_ of complex": (lambda x: x.clone().relu_(), (_COMPLEX,)),
    "product of bool": (lambda x: x @ x.T, (_BOOL,)),
    "addcmul_ of bool": (lambda x: x.clone().addcmul_(x, x), (_BOOL,)),
    "bits of a float": (torch.bitwise_or, (_INT, _INT.float())),
    "cross of two dtypes": (torch.linalg.cross, (_INT.float(), _INT.double())),
    "cummax along no dimension": (lambda x: x.cummax(1), (torch.tensor(1.0),)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_a_refused_operator_in_a_graph(name: str, dynamic: bool) -> None:
    function, args = CALLS[name]
    with pytest.raises((RuntimeError, IndexError, TypeError)) as expected:
        function(*args)
    compiled = torch.compile(function, dynamic=dynamic, fullgraph=True)
    for _ in range(2):
        with pytest.raises(type(expected.value)) as actual:
            compiled(*(x.to("tpu") for x in args))
        assert type(actual.value) is type(expected.value)
        # With dynamic sizes, a different CPU kernel may raise the error, with different text.
        if not dynamic:
            assert _words(actual.value) == _words(expected.value)


def _words(error: BaseException) -> str:
    """Return an error's text without the CPU kernel's name, which depends on strides."""
    return str(error).splitlines()[0].rpartition('"')[2]


def test_a_decomposed_operator_that_is_accepted_is_decomposed() -> None:
    @torch.compile(fullgraph=True)
    def loss(x: torch.Tensor) -> torch.Tensor:
        return functional.gelu(x.softmax(0)).std() + functional.smooth_l1_loss(x, x.relu())

    x = torch.randn(4, 5)
    device_x, cpu_x = x.to("tpu").requires_grad_(), x.clone().requires_grad_()
    loss(device_x).backward()
    (
        functional.gelu(cpu_x.softmax(0)).std() + functional.smooth_l1_loss(cpu_x, cpu_x.relu())
    ).backward()
    torch.testing.assert_close(device_x.grad.cpu(), cpu_x.grad)
