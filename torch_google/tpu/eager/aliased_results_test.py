# SPDX-License-Identifier: Apache-2.0
"""An out= argument that shares its storage with an input can be resized."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

Alias = Callable[[torch.Tensor], torch.Tensor]

_VALUES = torch.arange(1.0, 7).view(2, 3)
_ALIASES: dict[str, Alias] = {
    "itself": lambda x: x,
    "flat": lambda x: x.view(6),
    "transposed": lambda x: x.t(),
    "an empty view": lambda x: x[:, :0],
    "a row": lambda x: x[0],
}
_REDUCTIONS = ("sum", "prod", "mean", "amax", "logsumexp", "norm", "std")


@pytest.mark.parametrize("mode", ["strict", "fused", "debug"])
@pytest.mark.parametrize("alias", _ALIASES)
@pytest.mark.parametrize("name", _REDUCTIONS)
def test_a_reduction_reads_the_values_before_the_write(name: str, alias: str, mode: str) -> None:
    reduce = getattr(torch, name)
    with torch.tpu.eager_mode(mode):
        for _ in range(2):
            x = _VALUES.to("tpu")
            out = _ALIASES[alias](x)
            assert reduce(x, 0 if name != "norm" else 2, **_dim(name), out=out) is out
            expected = reduce(_VALUES, 0 if name != "norm" else 2, **_dim(name))
            torch.testing.assert_close(out.cpu(), expected)
            assert x.untyped_storage().nbytes() >= _VALUES.nbytes


def _dim(name: str) -> dict[str, int]:
    return {"dim": 0} if name == "norm" else {}


def test_both_results_of_a_maximum() -> None:
    x, places = _VALUES.to("tpu"), torch.empty(0, dtype=torch.int64, device="tpu")
    torch.max(x, 0, out=(x, places))
    assert (x.tolist(), places.tolist()) == ([4, 5, 6], [1, 1, 1])


def test_an_elementwise_result_in_an_empty_view() -> None:
    for device in ("cpu", "tpu"):
        x = _VALUES.to(device, copy=True)
        assert torch.add(x, x, out=x[0, :0]).tolist() == (2 * _VALUES).tolist()


@pytest.mark.parametrize(
    "refused",
    [
        lambda x: torch.add(x[0], x, out=x[0]),
        lambda x: (lambda y: torch.add(y, x, out=y))(x[0].clone()),
        lambda x: (lambda y: torch.cat((y, x), 0, out=y))(x[:0]),
    ],
)
def test_what_the_cpu_refuses_to_resize(refused: Alias) -> None:
    for device in ("cpu", "tpu"):
        with pytest.raises(RuntimeError):
            refused(_VALUES.to(device, copy=True))
