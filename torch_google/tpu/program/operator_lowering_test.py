# SPDX-License-Identifier: Apache-2.0

from typing import Any

import jax
import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from torch_google.tpu.lowerings import Lowering, lowering
from torch_google.tpu.program import (
    BakedNumber,
    HostRead,
    LoweredProgram,
    Number,
    constant,
    interpreter,
    lower_op,
    operator_lowering,
    tensor_of,
)
from torch_google.tpu.program.graph_tracing import trace
from torch_google.tpu.program.small_table import small_table
from torch_google.tpu.release import V2_6

__all__ = ["small_table"]
pytestmark = pytest.mark.usefixtures("small_table")
aten = torch.ops.aten
X = torch.arange(6.0).reshape(2, 3)


def run(program: LoweredProgram, *leaves: Any, key: Any = None) -> list[torch.Tensor]:
    function = program if program.host_shape else jax.jit(program)
    results = function([constant(leaf) for leaf in leaves], key)
    return [torch.from_numpy(np.array(result)) for result in results]


def test_a_lowering_runs_with_the_dtype_that_torch_gives() -> None:
    one = torch.ones(2, 3, dtype=torch.int32)
    (result,) = run(lower_op(aten.add.Tensor, (one, X)), one, X)
    torch.testing.assert_close(result, one + X)
    assert result.dtype == torch.float32


def test_a_number_is_an_input() -> None:
    program = jax.jit(lower_op(aten.add.Tensor, (X, Number(2.0))))
    for number in (2.0, 5.0):
        (result,) = program([constant(X), number])
        np.testing.assert_array_equal(result, X + number)
    assert program._cache_size() == 1


def test_an_operator_is_what_torch_makes_of_it() -> None:
    (result,) = run(lower_op(aten.addcmul.default, (X, X, X), {"value": 3}), X, X, X)
    torch.testing.assert_close(result, torch.addcmul(X, X, X, value=3))


def test_a_tensor_given_twice_is_two_inputs() -> None:
    meta = X.to("meta")
    program = lower_op(aten.addcmul.default, (meta, meta, meta))
    (result,) = run(program, X, X + 1, X + 2)
    torch.testing.assert_close(result, torch.addcmul(X, X + 1, X + 2))


def test_a_number_stays_an_input_of_a_decomposition() -> None:
    program = lower_op(aten.addcmul.default, (X, X, X), {"value": Number(3.0)})
    (result,) = run(program, X, X, X, 7.0)
    torch.testing.assert_close(result, torch.addcmul(X, X, X, value=7.0))


def test_a_kernel_that_writes_to_what_it_made_becomes_pure() -> None:
    graph = trace(aten.fill.Scalar, (X, 4.0))
    assert not any(
        node.target._schema.is_mutable
        for node in graph.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
    )
    (result,) = run(lower_op(aten.fill.Scalar, (X, 4.0)), X)
    torch.testing.assert_close(result, torch.full_like(X, 4.0))


def test_lists_and_several_results_are_flat() -> None:
    values, indices = run(lower_op(aten.max.dim, (X, 1)), X)
    expected = torch.max(X, 1)
    torch.testing.assert_close(values, expected.values)
    torch.testing.assert_close(indices, expected.indices)


def test_shapes_that_depend_on_values_are_made_on_the_host() -> None:
    program = lower_op(aten.nonzero.default, (X,))
    assert program.host_shape
    torch.testing.assert_close(run(program, X)[0], X.nonzero())


def test_random_numbers_come_from_the_key() -> None:
    program = lower_op(aten.rand.default, ([4],))
    assert program.random
    first, second, again = (run(program, key=jax.random.key(seed))[0] for seed in (0, 1, 0))
    assert not torch.equal(first, second)
    assert torch.equal(first, again)


def test_what_has_no_lowering_is_named() -> None:
    with pytest.raises(NotImplementedError, match="no lowering for prims::atan") as actual:
        lower_op(aten.atan.default, (X,))
    assert str(actual.value) == (
        "tpu: no lowering for prims::atan (float32), part of torch's decomposition of aten::atan. "
        'Write one in your program: @torch_google.tpu.lowering("prims::atan") '
        "above a function of jax arrays that has the operator's arguments"
    )


_library = torch.library.Library("tpu_operators_test", "FRAGMENT")
_library.define("halved(Tensor x) -> Tensor")
_library.impl("halved", lambda x: x / 2, "CPU")
_library.define("halved_twice(Tensor x) -> Tensor")
_library.impl("halved_twice", lambda x: halved(halved(x)), "CompositeExplicitAutograd")
halved: Any = torch.ops.tpu_operators_test.halved.default


@pytest.mark.parametrize(
    ("op", "of"),
    [("halved", ""), ("halved_twice", ", part of torch's decomposition of .*halved_twice")],
)
def test_without_lowering_and_meta_kernel_an_operator_is_told_what_adds_one(
    op: str, of: str
) -> None:
    message = (
        rf"no lowering for tpu_operators_test::halved \(float32\){of}\. "
        r'.*@torch_google\.tpu\.lowering\("tpu_operators_test::halved"\)'
    )
    with pytest.raises(NotImplementedError, match=message) as raised:
        lower_op(getattr(torch.ops.tpu_operators_test, op).default, (X,))
    assert not isinstance(raised.value, HostRead)


def test_a_wrong_shape_is_named() -> None:
    program = lower_op(aten.mm.default, (X, X.T))
    with pytest.raises(ValueError, match=r"lowering of aten::mm gave \(2, 3\), torch has \(2, 2\)"):
        run(program, X, X.T)


def test_a_graph_that_asks_for_a_number_says_so() -> None:
    def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
        return x * 2 if factor > 1 else x

    with pytest.raises(BakedNumber, match="scaled depends on the value of a number"):
        trace(scaled, (X, Number(2.0)))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        torch.tensor([1 + 2j, 3 - 1j]).conj(),
        torch.tensor(True),
        torch.zeros(0, 3, dtype=torch.float8_e5m2),
    ],
    ids=str,
)
def test_constants_keep_their_bits(tensor: torch.Tensor) -> None:
    array = constant(tensor)
    assert array.shape == tensor.shape
    wide = torch.complex128 if tensor.is_complex() else torch.float64
    np.testing.assert_array_equal(
        np.asarray(array).astype(complex), tensor.to(wide).resolve_conj().numpy().astype(complex)
    )
    torch.testing.assert_close(tensor_of(array), tensor.resolve_conj())


@pytest.mark.skipif(V2_6, reason="v2.6 decomposes it into operators without lowerings")
def test_a_kernel_that_calls_its_own_variant_is_not_followed() -> None:
    with pytest.raises(
        NotImplementedError, match=r"no lowering for aten::bernoulli\.p \(float32\)"
    ):
        lower_op(aten.bernoulli.p, (X, 0.5))


def test_reading_values_on_the_way_is_named() -> None:
    with pytest.raises(HostRead, match="aten::allclose reads the values of a tensor"):
        lower_op(aten.allclose.default, (X, X))


def test_without_a_meta_kernel_the_lowering_says_what_it_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def without(*args: Any) -> Any:
        raise NotImplementedError

    monkeypatch.setattr(operator_lowering, "_meta_results", without)
    lowering("aten::frexp.Tensor")(lambda x: (x[:1], x[1:].astype(int)))
    program = lower_op(aten.frexp.Tensor, (X,))
    described = [(tuple(m.shape), m.dtype) for m in program.metas if m is not None]
    assert described == [((1, 3), torch.float32), ((1, 3), torch.int64)]


def test_a_program_is_made_inside_a_kernel_too() -> None:
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            actual.append(lower_op(aten.fill.Scalar, (X, 4.0)))
            return func(*args, **(kwargs or {}))

    actual: list[LoweredProgram] = []
    with Mode():
        torch.neg(X)
    torch.testing.assert_close(run(actual[0], X)[0], torch.full_like(X, 4.0))


def test_a_shape_may_depend_on_values_for_some_arguments_only() -> None:
    def masked(x: Any, indices: Any) -> bool:
        return any(str(index.dtype).endswith("bool") for index in indices)

    lowering("aten::index.Tensor", host_shape=masked)(lambda x, indices: x[tuple(indices)])
    mask = X > 2
    program = lower_op(aten.index.Tensor, (X, [mask]))
    assert program.host_shape
    torch.testing.assert_close(run(program, X, mask)[0], X[mask])
    rows = torch.tensor([1, 0])
    program = lower_op(aten.index.Tensor, (X, [rows]))
    assert not program.host_shape
    torch.testing.assert_close(run(program, X, rows)[0], X[rows])


def test_a_gradient_that_is_left_out_has_no_value() -> None:
    # Some of torch's fake tensor kernels return a shape even for a gradient that output_mask
    # excludes.
    metas = (torch.empty(3, device="meta"), torch.empty(2, device="meta"))
    partial = Lowering("aten::convolution_backward", lambda *args: (None, jax.numpy.ones(2)))
    op = torch.ops.aten.convolution_backward.default
    first, second = interpreter.run(partial, op, (), {}, metas, None)
    assert first is None
    assert second.tolist() == [1, 1]
