# SPDX-License-Identifier: Apache-2.0
"""The device rejects calls that the CPU rejects, in most cases with the same message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import jax
import pytest
import torch
from torch.nn import functional
from torch.utils.data import DataLoader

from torch_google.tpu import _C
from torch_google.tpu.runtime import compiler
from torch_google.tpu.runtime.cache_miss import CacheMissError


def _classified(device: str, inputs: list[int], targets: list[int]) -> Any:
    log_probs = torch.zeros(4, 2, 3).log_softmax(-1).to(device)
    chosen = torch.ones(2, 3, dtype=torch.int64).to(device)
    return functional.ctc_loss(
        log_probs, chosen, torch.tensor(inputs).to(device), torch.tensor(targets).to(device)
    )


# Invalid calls to operators whose result shapes depend on input values.
VALUES: dict[str, Callable[[str], Any]] = {
    "bincount": lambda on: torch.bincount(torch.tensor([-1, 2]).to(on)),
    "bincount of other weights": lambda on: torch.bincount(
        torch.tensor([1, 2]).to(on), torch.ones(1).to(on)
    ),
    "bincount of no length": lambda on: torch.bincount(torch.tensor([1]).to(on), minlength=-1),
    "bincount of a matrix": lambda on: torch.bincount(torch.ones(2, 2, dtype=torch.int64).to(on)),
    "repeats": lambda on: torch.arange(2).to(on).repeat_interleave(torch.tensor([-1, 2]).to(on)),
    "repeats, sized": lambda on: torch.repeat_interleave(
        torch.tensor([1, 2]).to(on), output_size=7
    ),
    "histc": lambda on: torch.histc(torch.ones(3).to(on), 3, 5, 1),
    "ctc_loss of inputs": lambda on: _classified(on, [4, 9], [1, 1]),
    "ctc_loss of targets": lambda on: _classified(on, [4, 4], [1, -1]),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_that_the_host_looks_at_are_refused_as_on_the_cpu(name: str) -> None:
    with pytest.raises(RuntimeError) as expected:
        VALUES[name]("cpu")
    with pytest.raises(RuntimeError) as actual:
        VALUES[name]("tpu")
    # The CPU's message may end with the name of the C++ function that checked the call.
    message = str(expected.value).splitlines()[0].partition(" (while checking")[0]
    assert str(actual.value).startswith(message)


def test_a_negative_size_is_refused_in_torchs_words() -> None:
    with pytest.raises(RuntimeError, match="negative dimension -1"):
        torch.empty(2, -1, device="tpu")


def test_what_lies_on_the_cpu_is_not_written_by_the_device() -> None:
    refusal = "to be on the same device, but the written tensor is on the CPU"
    with pytest.raises(RuntimeError, match=refusal):
        torch.zeros(()).random_(generator=torch.Generator("tpu"))
    with pytest.raises(RuntimeError, match=refusal):
        torch.zeros(()).add_(torch.ones((), device="tpu"))
    with pytest.raises(RuntimeError, match=refusal):
        torch.add(torch.ones(2, device="tpu"), 1, out=torch.zeros(()))


def test_a_loader_that_draws_on_the_cpu_takes_no_generator_of_the_device() -> None:
    loader = DataLoader(list(range(4)), shuffle=True, generator=torch.Generator("tpu"))
    with pytest.raises(RuntimeError, match="pass a CPU generator"):
        next(iter(loader))


def test_products_of_two_dtypes_are_refused_in_the_words_of_the_cpu() -> None:
    a = torch.ones(2, 2, device="tpu")
    b = torch.ones(2, 2, dtype=torch.float64, device="tpu")
    with pytest.raises(RuntimeError, match="have the same dtype, but got: float != double"):
        a @ b
    with pytest.raises(RuntimeError, match="mat1 and mat2 must have the same dtype"):
        torch.nn.functional.linear(a.bfloat16(), a, a[0])


@pytest.mark.parametrize(
    "refusal",
    [
        CacheMissError("a program", "a key"),
        torch.OutOfMemoryError("no room for a program"),
        jax.errors.JaxRuntimeError("INTERNAL: no program"),
    ],
    ids=lambda refusal: type(refusal).__name__,
)
def test_what_is_said_of_a_program_is_not_hidden_by_what_the_cpu_says_of_zeros(
    refusal: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise refusal

    a = torch.tensor([7, 8, 9, 10, 11]).to("tpu")
    _C.clear_programs()
    monkeypatch.setattr(compiler, "compiled", refuse)
    with pytest.raises(type(refusal)) as raised:
        a % a
    assert str(raised.value) == str(refusal)
    monkeypatch.undo()
    assert (a % a).tolist() == [0] * 5


def _resized(device: str) -> torch.Tensor:
    x, y = torch.zeros(0, device=device), torch.ones(4, 6, device=device)
    return torch.cat((x, y), 0, out=x)


def _alpha(alpha: float | complex, *dtypes: torch.dtype) -> Callable[[str], Any]:
    return lambda on: torch.add(*(torch.ones(2, dtype=d, device=on) for d in dtypes), alpha=alpha)


def _masked(device: str) -> torch.Tensor:
    x = torch.ones(2, 2, dtype=torch.bfloat16, device=device)
    return x.index_put_((torch.tensor([True, False], device=device),), torch.ones(2).to(device))


# Calls that torch's meta kernels accept but the CPU rejects.
KINDS: dict[str, Callable[[str], Any]] = {
    "out= an input of another size": _resized,
    "a bool alpha": _alpha(True, torch.int64, torch.int64),
    "alpha with a fraction": _alpha(1.5, torch.bool, torch.bool),
    "a complex alpha": _alpha(1j, torch.bool, torch.bool),
    "a difference of a bool": lambda on: torch.ones(2).to(on) - torch.ones(2).bool().to(on),
    "a list of them": lambda on: torch._foreach_sub(
        [torch.ones(2).to(on)], [torch.ones(2).bool().to(on)]
    ),
    "a complex sum in a float": lambda on: torch.ones(2).to(on).add_(1j),
    "a product of two dtypes": lambda on: torch.ones(2, 2, dtype=torch.int64, device=on).addmm_(
        torch.ones(2, 2).to(on), torch.ones(2, 2).to(on)
    ),
    "a product in a scalar": lambda on: torch.tensor(1.0, device=on).addr_(
        torch.ones(2).to(on), torch.ones(2).to(on)
    ),
    "values of another dtype for a mask": _masked,
    "a triangle as another dtype": lambda on: torch.tril(
        torch.ones(2, 2).to(on), out=torch.ones(2, 2, dtype=torch.float64, device=on)
    ),
    "two places that are one": lambda on: torch.take(
        torch.ones(2).to(on), torch.tensor([0, 1]).to(on), out=torch.ones(1).to(on).expand(2)
    ),
    "a place that is read and moved": lambda on: (
        lambda x: torch.index_select(x, 0, torch.tensor([1, 0]).to(on), out=x)
    )(torch.ones(2).to(on)),
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds_are_refused_as_on_the_cpu(name: str) -> None:
    with pytest.raises(RuntimeError) as expected:
        KINDS[name]("cpu")
    with pytest.raises(RuntimeError) as actual:
        KINDS[name]("tpu")
    if name == "out= an input of another size":
        assert "cannot be resized" in str(actual.value)
    else:
        assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]


# Matmuls with an addend, for sizes that torch's meta kernels broadcast but the CPU rejects.
# Each case is an operator and the sizes of its three arguments.
SUMS = (
    ("addmm", (1, 3), (1, 3), (3, 1)),
    ("addmm", (2, 300), (2, 300), (300, 1)),
    ("addmm", (3,), (2, 2), (2, 3)),
    ("addmv", (3,), (1, 3), (3,)),
    ("addr", (1, 3), (1,), (1,)),
    ("baddbmm", (1, 1, 3), (1, 1, 3), (1, 3, 1)),
    ("addbmm", (1, 3), (2, 1, 3), (2, 3, 1)),
)


def _sum(op: str, variant: str, sizes: Sequence[tuple[int, ...]], device: str) -> torch.Tensor:
    total, *factors = (torch.ones(size, device=device) for size in sizes)
    if variant == "in place":
        return getattr(total, f"{op}_")(*factors)
    options = {"out": torch.empty(0, device=device)} if variant == "out" else {}
    return getattr(torch, op)(total, *factors, **options)


@pytest.mark.parametrize("mode", ["strict", "fused", "debug"])
@pytest.mark.parametrize("variant", ["pure", "in place", "out"])
@pytest.mark.parametrize(("op", "sizes"), [(op, sizes) for op, *sizes in SUMS])
def test_a_product_is_not_broadcast_to_what_it_is_added_to(
    op: str, sizes: list[tuple[int, ...]], variant: str, mode: str
) -> None:
    expected, actual = (
        _outcome(op, variant, sizes, "cpu", "strict"),
        _outcome(op, variant, sizes, "tpu", mode),
    )
    assert actual == expected


def _outcome(
    op: str, variant: str, sizes: Sequence[tuple[int, ...]], device: str, mode: str
) -> list[Any] | str:
    """Return the sum, or the first line of the error that the operator raises."""
    try:
        with torch.tpu.eager_mode(mode):
            return _sum(op, variant, sizes, device).tolist()
    except RuntimeError as error:
        return str(error).splitlines()[0]


def test_a_refusal_does_not_depend_on_what_ran_before() -> None:
    x = torch.ones(2, dtype=torch.int64, device="tpu")
    torch.add(x, x, alpha=1)
    with pytest.raises(RuntimeError, match="Boolean alpha"):
        torch.add(x, x, alpha=True)
    assert torch.add(x, x, alpha=1).tolist() == [2, 2]


DRAWS: dict[str, tuple[Callable[[torch.Tensor, int], Any], Callable[[torch.Tensor], Any]]] = {
    "uniform_": (lambda x, n: x.uniform_(0, n), lambda x: x.uniform_(3, -1)),
    "normal_": (lambda x, n: x.normal_(0, n), lambda x: x.normal_(0, -1)),
    "exponential_": (lambda x, n: x.exponential_(n), lambda x: x.exponential_(-1)),
    "cauchy_": (lambda x, n: x.cauchy_(0, n), lambda x: x.cauchy_(0, -1)),
    "log_normal_": (lambda x, n: x.log_normal_(0, n), lambda x: x.log_normal_(0, -1)),
    "geometric_": (lambda x, n: x.geometric_(1 / (n + 1)), lambda x: x.geometric_(1.5)),
    "bernoulli_": (lambda x, n: x.bernoulli_(1 / n), lambda x: x.bernoulli_(1.5)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_parameters_are_refused_when_numbers_are_inputs(name: str) -> None:
    draw, refused = DRAWS[name]
    with pytest.raises(RuntimeError) as expected:
        refused(torch.ones(5))
    x = torch.ones(5, device="tpu")
    for n in range(1, 20):
        draw(x, n)
    with pytest.raises(RuntimeError) as actual:
        refused(x)
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]
    draw(x, 3)


def test_parameters_are_refused_where_the_compile_cache_has_a_program(tmp_path: Path) -> None:
    x = torch.ones(5, device="tpu")
    torch.tpu.set_compile_cache(tmp_path)
    try:
        x.uniform_(0, 1)
        _C.clear_programs()
        x.uniform_(0, 1)
        for _ in range(2):
            with pytest.raises(RuntimeError, match=r"from=3 > to=-1"):
                x.uniform_(3, -1)
    finally:
        torch.tpu.set_compile_cache(None)
    assert 0 <= x.max().item() <= 1


# Each case has two scalars of the same type. The tensor's dtype can represent only the first one.
FILLS: dict[str, tuple[Callable[[str, Any], Any], float, float]] = {
    "fill_": (lambda on, n: torch.ones(3, dtype=torch.uint8, device=on).fill_(n), 7, 300),
    "fill_ of uint16": (
        lambda on, n: torch.zeros(3, dtype=torch.uint16, device=on).fill_(n),
        7,
        70000,
    ),
    "fill_ of complex64": (
        lambda on, n: torch.zeros(3, dtype=torch.complex64, device=on).fill_(n),
        1.0,
        1e300,
    ),
    "full": (lambda on, n: torch.full((3,), n, dtype=torch.uint8, device=on), 7, 300),
    "full of halves": (
        lambda on, n: torch.full((2, 2), n, dtype=torch.float16, device=on),
        1.0,
        1e9,
    ),
    "full_like": (lambda on, n: torch.full_like(torch.ones(3).char().to(on), n), -7, -200),
    "masked_fill": (
        lambda on, n: (
            torch.ones(3).half().to(on).masked_fill(torch.tensor([True, False, True]).to(on), n)
        ),
        -1.0,
        -1e9,
    ),
    "index_fill_": (
        lambda on, n: torch.ones(3).half().to(on).index_fill_(0, torch.tensor([1]).to(on), n),
        1.0,
        1e9,
    ),
}


# Other operators that convert a scalar to the dtype of a tensor argument.
_CONVERTING: list[tuple[str, Callable[[torch.Tensor, Any], Any], torch.Tensor, float, float]] = [
    ("clamp", lambda x, n: x.clamp(max=n), torch.ones(3).char(), 2, 200),
    ("clamp_", lambda x, n: x.clone().clamp_(min=n), torch.ones(3).int(), 2, 2**40),
    ("clamp_min of halves", lambda x, n: x.clamp_min(n), torch.ones(3).half(), 2.0, 1e9),
    ("hardtanh", lambda x, n: functional.hardtanh(x, 0.0, n), torch.ones(3), 2.0, 1e300),
    ("threshold", lambda x, n: functional.threshold(x, 5, n), torch.ones(3).byte(), 2, 300),
    ("pad", lambda x, n: functional.pad(x, (1, 1), value=n), torch.ones(3).char(), 2, 300),
    ("a large clamp", lambda x, n: x.clamp(max=n), torch.ones(90, 90).char(), 2, 300),
    ("addcmul", lambda x, n: x.addcmul(x, x, value=n), torch.ones(3).char(), 2, 300),
    ("alpha", lambda x, n: x.add(x, alpha=n), torch.ones(3).half(), 2.0, 1e9),
    ("foreach", lambda x, n: torch._foreach_maximum([x], n)[0], torch.ones(3).char(), 2, 300),
    ("setitem", lambda x, n: x.clone().index_put_((x > 0,), torch.tensor(n)),
     torch.ones(3).byte(), 2, 300),
]  # fmt: skip


def _on(f: Callable[[torch.Tensor, Any], Any], x: torch.Tensor) -> Callable[[str, Any], Any]:
    return lambda on, number: f(x.to(on), number)


FILLS |= {name: (_on(f, x), good, bad) for name, f, x, good, bad in _CONVERTING}


@pytest.mark.parametrize("name", FILLS)
def test_a_number_that_the_dtype_has_not_is_refused_as_on_the_cpu(name: str) -> None:
    fill, good, bad = FILLS[name]
    with pytest.raises(RuntimeError, match="without overflow") as expected:
        fill("cpu", bad)
    for _ in range(2):
        assert torch.equal(fill("tpu", good).cpu(), fill("cpu", good))
        with pytest.raises(RuntimeError) as actual:
            fill("tpu", bad)
        assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]


def test_numbers_that_a_dtype_has_in_torchs_eyes_are_written() -> None:
    for dtype, number in [
        (torch.float16, float("inf")),
        (torch.float16, 65504.0),
        (torch.uint8, -1),
        (torch.bool, 300),
        (torch.bfloat16, -1e30),
        (torch.complex64, 1e9),
    ]:
        expected = torch.zeros(2, dtype=dtype).fill_(number)
        assert torch.equal(torch.zeros(2, dtype=dtype, device="tpu").fill_(number).cpu(), expected)


def test_masked_select_takes_masks_of_bools_alone() -> None:
    values = torch.ones(4, device="tpu")
    for dtype in (torch.uint8, torch.int32, torch.float32):
        with pytest.raises(RuntimeError, match="expected BoolTensor for mask"):
            values.masked_select(torch.ones(4, dtype=dtype, device="tpu"))


def test_a_masked_scatter_may_have_an_empty_source() -> None:
    values = torch.ones(4, device="tpu")
    nothing = torch.zeros(4, dtype=torch.bool, device="tpu")
    assert values.masked_scatter(nothing, values[:0]).tolist() == [1, 1, 1, 1]
    one = torch.ones(1, device="tpu", requires_grad=True)
    torch.combinations(one, r=2).sum().backward()  # its backward pass scatters nothing
    assert one.grad.tolist() == [0]


def test_a_tensor_of_the_cpu_takes_no_indices_of_the_device() -> None:
    tensor = torch.ones(3, 4)
    index = torch.tensor([0, 2], device="tpu")
    for indices in ((index,), (torch.tensor([0, 1]), index)):
        with pytest.raises(RuntimeError, match=r"indices should be either on cpu .* \(cpu\)"):
            tensor[indices]


def test_classes_may_be_bytes() -> None:
    results = []
    for device in ("cpu", "tpu"):
        x = torch.arange(12.0, device=device).view(3, 4).requires_grad_()
        target = torch.tensor([0, 1, 2], dtype=torch.uint8, device=device)
        loss = functional.nll_loss(x, target)
        results.append([loss, *torch.autograd.grad(loss, [x])])
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual.cpu(), expected)


@pytest.mark.parametrize("loss", [torch.nn.MultiMarginLoss(), torch.nn.MultiLabelMarginLoss()])
@pytest.mark.parametrize(
    ("shape", "of_target"),
    [((0,), (0,)), ((10, 0), (10, 0)), ((0, 10), (10,)), ((2, 3, 4), (2, 3))],
)
def test_margin_losses_want_rows(
    loss: torch.nn.Module, shape: tuple[int, ...], of_target: tuple[int, ...]
) -> None:
    for device in ("cpu", "tpu"):
        x = torch.ones(shape, device=device)
        with pytest.raises(RuntimeError):
            loss(x, torch.ones(of_target, dtype=torch.int64, device=device))


@pytest.mark.parametrize(
    "op",
    [
        lambda x: functional.elu_(x, alpha=-2),
        lambda x: functional.celu_(x, alpha=-2),
        lambda x: functional.leaky_relu_(x, -2),
        lambda x: torch.rrelu_(x, -2.0, -1.0, False),
    ],
)
def test_a_result_of_a_negative_slope_has_no_gradient(op: Any) -> None:
    x = torch.tensor([-1.0, 1.0], device="tpu", requires_grad=True)
    with pytest.raises(RuntimeError, match="call out-of-place version"):
        op(x.clone()).sum().backward()
