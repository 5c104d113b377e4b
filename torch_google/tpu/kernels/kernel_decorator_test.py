# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import torch
from jax.experimental import pallas as pl

from torch_google.tpu import _C, custom_kernel, export_stablehlo, lowering

MODES = sorted(_C.Mode.__members__)
_numbers = count()


def fresh() -> str:
    """Return an unused operator name, because operators exist until the process exits."""
    return f"kernels_test::op{next(_numbers)}"


@custom_kernel("kernels_test::scaled", differentiable=True)
def scaled(x: jax.Array, factor: float = 2.0, *, shift: int = 0) -> jax.Array:
    return x * x * factor + shift


@custom_kernel("kernels_test::joined", differentiable=True)
def joined(
    parts: list[jax.Array], bias: jax.Array | None, dims: tuple[int, ...], flip: bool = False
) -> tuple[jax.Array, jax.Array]:
    assert isinstance(dims, tuple)
    result = jnp.concatenate([jnp.exp(part) for part in parts])
    result = result if bias is None else result * bias
    return (result[::-1] if flip else result), jnp.asarray(result.sum(dims) > 0)


@custom_kernel("kernels_test::total", differentiable=True)
def total(parts: list[jax.Array | None], base: jax.Array) -> jax.Array:
    return sum((part * part for part in parts if part is not None), start=base)


@custom_kernel("kernels_test::ninefold")
def ninefold(x: jax.Array, scale: jax.Array, *, shift: int = 0) -> tuple[jax.Array, jax.Array]:
    return x * scale + shift, x > 0


def _ninefold_setup(ctx: Any, inputs: Any, output: Any, keyword_only_inputs: Any) -> None:
    ctx.save_for_backward(*inputs)


def _ninefold_backward(ctx: Any, grad: torch.Tensor, _: Any) -> Any:
    x, scale = ctx.saved_tensors
    # The gradient is deliberately wrong, so that the test can tell whether it is used.
    return 9 * grad * scale, grad * x


ninefold.register_autograd(_ninefold_backward, setup_context=_ninefold_setup)


def doubling(source: Any, target: Any) -> None:
    target[...] = source[...] * 2


@custom_kernel("kernels_test::doubled")
def doubled(x: jax.Array) -> jax.Array:
    return pl.pallas_call(doubling, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode(mode: Any) -> None:
    x = torch.arange(3.0).to("tpu")
    with torch.tpu.eager_mode(mode):
        assert scaled(x).tolist() == [0.0, 2.0, 8.0]
        assert scaled(x.t() + 1, 1.0, shift=1).tolist() == [2.0, 5.0, 10.0]
        assert torch.ops.kernels_test.scaled(x, 3.0).tolist() == [0.0, 3.0, 12.0]
        assert doubled(x).tolist() == [0.0, 2.0, 4.0]


def test_it_is_a_program_as_any_operator_is() -> None:
    x = torch.arange(5.0).to("tpu")
    scaled(x, 5.0)
    torch.tpu.reset_metrics()
    for _ in range(3):
        scaled(x, 5.0)
    actual = torch.tpu.metrics()
    assert (actual.misses, actual.compiles, actual.fallbacks) == (0, 0, {})


def test_the_cpu_has_it_too() -> None:
    x = torch.arange(3.0, dtype=torch.float64)
    assert scaled(x, 3.0).tolist() == [0.0, 3.0, 12.0]
    assert scaled(x).dtype == torch.float64
    assert doubled(x.bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_lists_and_arguments_that_may_be_absent(device: str) -> None:
    parts = [torch.zeros(2, device=device), torch.ones(1, device=device)]
    result, positive = joined(parts, None, [0])
    torch.testing.assert_close(result.cpu(), torch.tensor([1.0, 1.0, torch.e]))
    assert positive.dtype == torch.bool
    bias = torch.tensor([1.0, 2.0, 0.0]).to(device)
    assert joined(parts, bias, [0], True)[0].tolist() == [0.0, 2.0, 1.0]


def test_metas_have_shapes_and_no_values() -> None:
    result, positive = joined([torch.empty(2, 3, device="meta")], None, [1])
    assert (result.shape, positive.shape) == ((2, 3), (2,))
    assert positive.device.type == "meta"


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_the_gradient_by_jax(device: str) -> None:
    x = torch.tensor([1.0, 2.0], device=device, requires_grad=True)
    (first,) = torch.autograd.grad(scaled(x, 3.0).sum(), x, create_graph=True)
    assert first.tolist() == [6.0, 12.0]
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [6.0, 6.0]


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_the_gradients_of_lists(device: str) -> None:
    parts = [torch.zeros(2, device=device), torch.ones(1, device=device, requires_grad=True)]
    bias = torch.tensor([1.0, 2.0, 3.0]).to(device).requires_grad_()
    result, positive = joined(parts, bias, [0])
    assert not positive.requires_grad
    result.sum().backward()
    torch.testing.assert_close(parts[1].grad.cpu(), torch.tensor([3 * torch.e]))
    torch.testing.assert_close(bias.grad.cpu(), torch.tensor([1.0, 1.0, torch.e]))
    assert parts[0].grad is None


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_a_list_with_a_none_has_no_gradients(device: str) -> None:
    part = torch.ones(2, device=device, requires_grad=True)
    base = torch.ones(2, device=device, requires_grad=True)
    message = "total at .*: argument 'parts' has a None next to a tensor that needs a gradient"
    for call in (total, torch.ops.kernels_test.total, torch.vmap(total, ([None, 0], 0))):
        with pytest.raises(TypeError, match=message):
            call([None, part], base)
    with torch.no_grad():
        assert total([None, part], base).tolist() == [2.0, 2.0]
    first, second = torch.autograd.grad(total([part, part], base).sum(), [part, base])
    assert (first.tolist(), second.tolist()) == ([4.0, 4.0], [1.0, 1.0])
    (actual,) = torch.autograd.grad(total([None, part.detach()], base).sum(), base)
    assert actual.tolist() == [1.0, 1.0]


def test_the_gradient_of_complex_numbers_is_torch_s() -> None:
    values = torch.tensor([1 + 2j, 3 - 1j])
    actual = []
    for device, square in (("cpu", lambda z: z * z * 2.0), ("tpu", scaled)):
        z = values.clone().to(device).requires_grad_()
        torch.view_as_real(square(z)).sum().backward()
        actual.append(z.grad.cpu())
    torch.testing.assert_close(actual[1], actual[0])


def test_gradcheck() -> None:
    x = torch.rand(3, dtype=torch.float64, device="tpu", requires_grad=True)
    assert torch.autograd.gradcheck(scaled, (x, 1.5))
    assert torch.autograd.gradgradcheck(scaled, (x, 1.5))


def test_a_gradient_of_its_own() -> None:
    @custom_kernel(fresh())
    def cubed(x: jax.Array) -> jax.Array:
        return x**3

    x = torch.tensor([2.0], device="tpu", requires_grad=True)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        cubed(x).backward()

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    cubed.register_autograd(lambda ctx, grad: grad * 7 * ctx.saved_tensors[0], setup_context=setup)
    cubed(x).backward()
    assert x.grad.tolist() == [14.0]


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_vmap(device: str) -> None:
    x = torch.arange(6.0).reshape(2, 3).to(device)
    assert torch.equal(torch.vmap(scaled)(x), scaled(x))
    assert torch.equal(torch.vmap(torch.vmap(scaled), in_dims=1, out_dims=1)(x), scaled(x))
    assert torch.equal(torch.vmap(doubled)(x), x * 2)
    y = x.detach().requires_grad_()
    torch.vmap(lambda row: scaled(row, 1.0))(y).sum().backward()
    assert torch.equal(y.grad, 2 * x)
    bias = torch.tensor([1.0, 2.0, 3.0]).to(device)
    batched = torch.vmap(lambda row: joined([row, row[:0]], bias, [0])[0])(x)
    torch.testing.assert_close(batched, x.exp() * bias)


def mapped(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    twice = torch.vmap(torch.vmap(lambda row: ninefold(row, scale, shift=1)), in_dims=1, out_dims=1)
    result, positive = twice(x)
    assert not positive.requires_grad
    return result


@pytest.mark.parametrize("device", ["cpu", "tpu"])
def test_vmap_with_a_gradient_of_its_own(device: str) -> None:
    x = torch.arange(24.0).reshape(2, 3, 4).to(device).requires_grad_()
    scale = torch.tensor([1.0, 2.0, 3.0, 4.0], device=device, requires_grad=True)
    torch.testing.assert_close(mapped(x, scale), x * scale + 1)
    of_x, of_scale = torch.autograd.grad(mapped(x, scale).sum(), [x, scale])
    torch.testing.assert_close(of_x, 9 * scale.expand(2, 3, 4))
    torch.testing.assert_close(of_scale, x.sum((0, 1)))


def test_vmap_without_gradients_is_one_call() -> None:
    calls = 0

    @custom_kernel(fresh())
    def counted(x: jax.Array) -> jax.Array:
        nonlocal calls
        calls += 1
        return x * 2

    counted.register_autograd(lambda ctx, grad: grad * 2)
    x = torch.ones(5, 3, device="cpu", requires_grad=True)
    with torch.no_grad():
        torch.vmap(counted)(x)
    torch.vmap(counted)(x.detach())
    assert calls == 2


@pytest.fixture
def _dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def both(x: torch.Tensor) -> torch.Tensor:
    return doubled(scaled(torch.sin(x), 3.0).detach()) + scaled(x)


@pytest.mark.usefixtures("_dynamo")
@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_part_of_a_compiled_program(device: str, dynamic: bool) -> None:
    compiled = torch.compile(both, backend="tpu", fullgraph=True, dynamic=dynamic)
    for size in (3, 5, 7):
        x = torch.arange(float(size)).to(device).requires_grad_()
        torch.testing.assert_close(compiled(x), both(x))
        torch.testing.assert_close(
            torch.autograd.grad(compiled(x).sum(), x), torch.autograd.grad(both(x).sum(), x)
        )


@pytest.mark.full
@pytest.mark.usefixtures("_dynamo")
def test_vmap_with_a_gradient_of_its_own_in_a_compiled_program() -> None:
    compiled = torch.compile(mapped, backend="tpu", fullgraph=True)
    x = torch.arange(24.0).reshape(2, 3, 4).to("tpu").requires_grad_()
    scale = torch.ones(4, device="tpu", requires_grad=True)
    actual = torch.autograd.grad(compiled(x, scale).sum(), [x, scale])
    torch.testing.assert_close(actual, torch.autograd.grad(mapped(x, scale).sum(), [x, scale]))


def test_a_part_of_an_exported_program() -> None:
    text = export_stablehlo(lambda x: scaled(torch.sin(x), 3.0), (torch.ones(3),))
    assert "stablehlo.sine" in text
    assert "custom_call" not in text


def test_a_pallas_kernel_of_an_exported_program() -> None:
    x = torch.ones(8, 128)
    assert "tpu_custom_call" not in export_stablehlo(doubled, (x,))
    assert "@tpu_custom_call" in export_stablehlo(doubled, (x,), platforms=("tpu",))


def test_lowerings_of_other_libraries() -> None:
    library = torch.library.Library("kernels_test_other", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: torch.empty_like(x), "Meta")
    lowering("kernels_test_other::twice")(lambda x: x * 2)
    x = torch.ones(2, device="tpu")
    assert torch.ops.kernels_test_other.twice(x).tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="'kernels_test_other::twice' is already lowered in"):
        lowering("kernels_test_other::twice")(lambda x: x)
    with pytest.raises(ValueError, match="is already an operator.*torch_google.tpu.lowering"):
        custom_kernel("kernels_test_other::twice")(scale_by_two)


def scale_by_two(x: jax.Array) -> jax.Array:
    return x * 2


def test_a_name_twice() -> None:
    name = fresh()
    custom_kernel(name)(scale_by_two)
    with pytest.raises(ValueError, match=f"custom_kernel {name} .scale_by_two at .*already"):
        custom_kernel(name)(scale_by_two)
    with pytest.raises(ValueError, match="'no name' is not of the form 'library::name'"):
        custom_kernel("no name")


def no_annotation(x) -> jax.Array:  # type: ignore[no-untyped-def]
    return x


def strange(x: dict[str, jax.Array]) -> jax.Array:
    return x["x"]


def nothing_returned(x: jax.Array):  # type: ignore[no-untyped-def]
    return x


def number_returned(x: jax.Array) -> float:
    return float(x)


def no_array(size: int) -> jax.Array:
    return jnp.zeros(size)


def any_number(*x: jax.Array) -> jax.Array:
    return x[0]


def by_keyword(x: jax.Array, *, y: jax.Array) -> jax.Array:
    return x + y


def default_list(x: jax.Array, dims: list[int] = []) -> jax.Array:  # noqa: B006
    return x.sum(dims)


def unknown_name(x: Nowhere) -> jax.Array:  # type: ignore[name-defined] # noqa: F821
    return x


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            no_annotation,
            "no_annotation at .*: argument 'x' has no annotation. Use one of jax.Array",
        ),
        (strange, r"strange at .*: argument 'x' is annotated as dict\[str"),
        (nothing_returned, "no return annotation"),
        (number_returned, "it returns float. Use jax.Array"),
        (no_array, "no argument is an array, so its device is unknown"),
        (any_number, r"argument '\*x: 'jax.Array'' has no fixed number of values"),
        (by_keyword, "argument 'y' is a keyword-only array"),
        (default_list, "argument 'dims' has a list as its default"),
        (unknown_name, "its annotations cannot be read: name 'Nowhere' is not defined"),
    ],
)
def test_functions_that_are_no_operators(function: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        custom_kernel(fresh())(function)


def branches(x: jax.Array) -> jax.Array:
    return x if x.sum() > 0 else -x


def returns_number(x: jax.Array) -> jax.Array:
    return 3.0


def returns_three(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return x, x, x  # type: ignore[return-value]


@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (branches, "branches at .*: it reads the values of an array.*jax.lax.cond"),
        (returns_number, "returns_number at .*: it returned float, not jax.Array"),
        (returns_three, "it returned 3 arrays, and its annotation says 2"),
    ],
)
def test_functions_that_go_wrong(function: Any, message: str, device: str) -> None:
    operator = custom_kernel(fresh())(function)
    with pytest.raises(TypeError, match=message):
        operator(torch.ones(2, device=device))


def test_arguments_of_the_wrong_kind() -> None:
    x = torch.ones(2, device="tpu")
    with pytest.raises(RuntimeError, match=r"scaled\(\) Expected .* 'float' for argument 'factor'"):
        scaled(x, "large")
    with pytest.raises(RuntimeError, match="same device"):
        joined([x, torch.ones(2)], None, [0])
