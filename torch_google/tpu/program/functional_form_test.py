# SPDX-License-Identifier: Apache-2.0

import pytest
import torch

import torch_google.tpu.lowerings.meta_kernels  # noqa: F401 (registers)
from torch_google.tpu.program import functional_of, mutation

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("op", "pure"),
    [
        (aten.add_.Tensor, aten.add.Tensor),
        (aten.add.out, aten.add.Tensor),
        (aten.add.Tensor, aten.add.Tensor),
        (aten.normal_.default, aten.normal_functional.default),
        (aten.bernoulli_.float, aten.bernoulli.p),
        (aten.copy_.default, aten.copy.default),
        (aten._foreach_add_.Scalar, aten._foreach_add.Scalar),
        (aten._fused_adamw_.default, aten._fused_adamw.default),
        (aten.__iand__.Tensor, aten.__and__.Tensor),
        (aten.ones.out, aten.ones.default),
        (aten.max.dim_max, aten.max.dim),
        (
            aten._native_batch_norm_legit.default,
            aten._native_batch_norm_legit_functional.default,
        ),
    ],
    ids=str,
)
def test_the_pure_operator(op: torch._ops.OpOverload, pure: torch._ops.OpOverload) -> None:
    assert functional_of(op) is pure


def test_what_is_written_and_what_is_new() -> None:
    norm = mutation(aten._native_batch_norm_legit.default)
    assert (norm.written, norm.values, norm.plain, norm.dropped) == ((3, 4), (3, 4), 3, ())
    top = mutation(aten.max.dim_max)
    assert (top.written, top.values, top.plain, top.dropped) == ((3, 4), (0, 1), 0, (3, 4))


def test_a_factory_takes_the_dtype_of_its_result() -> None:
    assert mutation(aten.ones.out).takes_dtype
    assert not mutation(aten.add.out).takes_dtype


def test_an_operator_without_a_pure_one_is_named() -> None:
    with pytest.raises(NotImplementedError, match=r"aten::_cummax_helper writes to its arguments"):
        functional_of(aten._cummax_helper.default)


def test_the_arguments_of_the_pure_operator() -> None:
    x, out = torch.ones(2), torch.ones(2)
    plan = mutation(aten.add.out)
    assert plan.arguments((x, 2), {"out": out}) == ([x, 2], {"alpha": 1})
    assert plan.targets((x, 2), {"out": out}) == [out]
    assert mutation(aten.bernoulli_.float).arguments((x,), {})[0] == [x, 0.5]
    zeros = mutation(aten.zeros.out)
    assert zeros.arguments(([2],), {"out": out}) == ([[2]], {"dtype": torch.float32})


def test_batch_norm_writes_what_its_schema_hides() -> None:
    norm = mutation(aten.native_batch_norm.default)
    assert norm.op.name() == "torch_google::native_batch_norm_functional"
    assert (norm.written, norm.values, norm.plain) == ((3, 4), (3, 4), 3)
    x, mean = torch.ones(2, 3), torch.ones(3)
    assert norm.targets((x, None, None, mean, None, True, 0.1, 1e-5), {}) == [mean, None]
