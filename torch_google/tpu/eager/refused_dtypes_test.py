# SPDX-License-Identifier: Apache-2.0
"""The device rejects the dtypes that the CPU rejects, with the CPU's error, in every mode."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.utils import _pytree as pytree

from torch_google.tpu.program import number, probe

Make = Callable[..., torch.Tensor]

_MODES = ("strict", "fused", "debug")


def _ones(dtype: torch.dtype, *sizes: int) -> Make:
    return lambda device: torch.ones(sizes or (2, 3), dtype=dtype, device=device)


_INT = _ones(torch.int64)
_COMPLEX = _ones(torch.complex64)
_BOOL = _ones(torch.bool)
_FLOAT = _ones(torch.float32)


def _batch_norm(values: torch.Tensor) -> torch.Tensor:
    return functional.batch_norm(values, None, None, training=True)


# The CPU has no kernels for these dtypes. The device must not compute in a float dtype instead,
# because it would then truncate results to integers, or impose an order on complex numbers.
DTYPES: dict[str, Callable[[str], Any]] = {
    "softmax of int64": lambda on: _INT(on).softmax(0),
    "log_softmax of bool": lambda on: _BOOL(on).log_softmax(0),
    "softmax of int64, large": lambda on: _ones(torch.int64, 300, 200)(on).softmax(0),
    "gelu of int64": lambda on: functional.gelu(_INT(on)),
    "silu of uint8": lambda on: functional.silu(_ones(torch.uint8)(on)),
    "elu of int32": lambda on: functional.elu(_ones(torch.int32)(on)),
    # For contiguous inputs, the CPU computes batch_norm with a single kernel. For others, it calls
    # mean().
    "batch_norm of int64": lambda on: _batch_norm(_ones(torch.int64, 2, 3, 4)(on)),
    "batch_norm of int64, permuted": lambda on: _batch_norm(
        _ones(torch.int64, 4, 3, 2)(on).permute(2, 1, 0)
    ),
    "batch_norm of int64, with gaps": lambda on: _batch_norm(
        _ones(torch.int64, 2, 3, 8)(on)[..., ::2]
    ),
    "batch_norm of int64, permuted, large": lambda on: _batch_norm(
        _ones(torch.int64, 40, 3, 200)(on).permute(2, 1, 0)
    ),
    "layer_norm of int64": lambda on: functional.layer_norm(_INT(on), [3]),
    "std of int16": lambda on: _ones(torch.int16)(on).std(),
    "max_pool2d of bool": lambda on: functional.max_pool2d(_ones(torch.bool, 1, 1, 4, 4)(on), 2),
    "avg_pool2d of bool, large": lambda on: functional.avg_pool2d(
        _ones(torch.bool, 1, 8, 64, 64)(on), 7
    ),
    "smooth_l1_loss of int64": lambda on: functional.smooth_l1_loss(_INT(on), _INT(on)),
    "order of complex": lambda on: _COMPLEX(on) < _COMPLEX(on),
    "max of complex": lambda on: _COMPLEX(on).max(),
    "argmax of complex": lambda on: _COMPLEX(on).argmax(),
    "sort of complex": lambda on: _COMPLEX(on).sort(),
    "sort of complex, large": lambda on: _ones(torch.complex64, 100, 200)(on).sort(),
    "topk of complex": lambda on: _COMPLEX(on).topk(1),
    "relu of complex": lambda on: _COMPLEX(on).relu(),
    "relu_ of complex": lambda on: _COMPLEX(on).relu_(),
    "clamp of complex": lambda on: _COMPLEX(on).clamp(0, 1),
    "floor of complex": lambda on: _COMPLEX(on).floor(),
    "maximum of complex": lambda on: torch.maximum(_COMPLEX(on), _COMPLEX(on)),
    "cummax of complex": lambda on: _COMPLEX(on).cummax(0),
    "product of bool": lambda on: _BOOL(on) @ _ones(torch.bool, 3, 2)(on),
    "batch of products of bool": lambda on: torch.bmm(
        _ones(torch.bool, 1, 2, 3)(on), _ones(torch.bool, 1, 3, 2)(on)
    ),
    "addcmul_ of bool": lambda on: _BOOL(on).addcmul_(_BOOL(on), _BOOL(on)),
    "bits of a float": lambda on: _INT(on) | _FLOAT(on),
    "bits of a float, by a number": lambda on: _FLOAT(on) & 1,
    "cross of two dtypes": lambda on: torch.linalg.cross(_FLOAT(on), _ones(torch.float64)(on)),
    "cummax along no dimension": lambda on: torch.ones((), device=on).cummax(dim=1),
    "masked_select of uint16": lambda on: _ones(torch.uint16)(on).masked_select(_BOOL(on)),
    "arange of complex": lambda on: torch.arange(10**9, dtype=torch.complex64, device=on),
    "ctc_loss of half": lambda on: functional.ctc_loss(
        torch.zeros(4, 2, 3, dtype=torch.half, device=on),
        torch.ones(2, 3, dtype=torch.int64, device=on),
        torch.tensor([4, 4], device=on),
        torch.tensor([1, 1], device=on),
    ),
}


@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("name", DTYPES)
def test_a_dtype_is_refused_as_on_the_cpu(name: str, mode: str) -> None:
    with pytest.raises((RuntimeError, IndexError, TypeError)) as expected:
        DTYPES[name]("cpu")
    with torch.tpu.eager_mode(mode):
        for _ in range(2):
            with pytest.raises(type(expected.value)) as actual:
                DTYPES[name]("tpu")
            assert type(actual.value) is type(expected.value)
            assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]


def test_a_fallback_does_not_hide_a_refusal() -> None:
    with torch.tpu.cpu_fallback(), pytest.raises(RuntimeError, match="for 'Long'"):
        _INT("tpu").softmax(0)


@pytest.mark.parametrize(
    "accepted",
    [
        lambda on: torch.linalg.inv(torch.eye(3, device=on)),
        lambda on: torch.segment_reduce(
            torch.ones(4, device=on), "sum", lengths=torch.tensor([1, 3], device=on)
        ),
        lambda on: torch.multinomial(torch.tensor([0.0, 1.0], device=on), 1),
        lambda on: torch.repeat_interleave(
            torch.tensor([2, 3], device=on), torch.tensor([2, 3], device=on), output_size=5
        ),
        lambda on: functional.embedding(
            torch.tensor([0], device=on), torch.ones(1, 100000, device=on)
        ),
    ],
)
def test_values_that_stand_in_are_not_refused(accepted: Callable[[str], torch.Tensor]) -> None:
    assert torch.equal(accepted("tpu").cpu(), accepted("cpu"))


def test_draws_of_the_device_leave_the_generator_of_the_cpu_alone() -> None:
    before = torch.get_rng_state()
    x = torch.ones(3, 19, device="tpu")
    x.uniform_().normal_().bernoulli_(0.5)
    functional.dropout(x, 0.25)
    torch.randn(17, device="tpu")
    torch.multinomial(x.fill_(1), 2)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_refused_call_leaves_tensors_of_the_cpu_alone() -> None:
    out = torch.full((2,), 7.0)
    with pytest.raises(RuntimeError):
        torch.softmax(torch.ones(2, dtype=torch.int64, device="tpu"), 0, out=out)
    assert out.tolist() == [7, 7]


@pytest.mark.parametrize(
    "call",
    [
        (torch.ops.aten.mm.default, [_ones(torch.float32, 4000, 4000)] * 2),
        (torch.ops.aten._softmax.default, [_ones(torch.float32, 4000, 4000), 0, False]),
        (torch.ops.aten.upsample_nearest2d.default, [_ones(torch.float32, 1, 1, 2, 2), [9999] * 2]),
        (torch.ops.aten.linspace.default, [0, 1, 10**10]),
        (torch.ops.aten.convolution.default, [_ones(torch.float32, 8, 64, 56, 56)]),
    ],
    ids=lambda call: str(call[0]),
)
def test_a_trial_of_a_large_call_is_a_small_one(
    call: tuple[Any, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    op, arguments = call
    args = [value("tpu") if callable(value) else value for value in arguments]
    if op is torch.ops.aten.convolution.default:
        weight = torch.ones(64, 64, 3, 3, device="tpu")
        args += [weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1]
    args += [None] * (len(op._schema.arguments) - len(args))
    elements = []

    def apply(op: Any, values: Any) -> Any:
        result = number.apply(op, values)
        leaves = [*pytree.tree_leaves(list(values)), *pytree.tree_leaves(result)]
        elements.append(sum(x.numel() for x in leaves if isinstance(x, torch.Tensor)))
        return result

    monkeypatch.setattr(probe, "apply", apply)
    probe.check(op, args)
    assert elements
    assert max(elements) < 20_000  # the full-size tensors have at least 1.6 million elements


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("of_weights", ["same", "float32"])
@pytest.mark.parametrize(
    "norm",
    [
        torch.nn.LayerNorm(8),
        torch.nn.LayerNorm(8, elementwise_affine=False),
        torch.nn.GroupNorm(2, 8),
        torch.nn.BatchNorm1d(8),
    ],
    ids=str,
)
def test_gradients_of_norms_take_the_statistics_of_the_device(
    norm: torch.nn.Module, of_weights: str, dtype: torch.dtype
) -> None:
    norm = copy.deepcopy(norm).to("tpu", dtype if of_weights == "same" else torch.float32)
    for function in (norm, torch.compile(norm)):
        x = torch.randn(4, 8, dtype=dtype, device="tpu", requires_grad=True)
        function(x).float().square().sum().backward()
        assert x.grad is not None
        assert x.grad.dtype == dtype
