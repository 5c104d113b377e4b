# SPDX-License-Identifier: Apache-2.0
"""Compare results by value, dtype and shape.

If an operator has several correct results, check a property that all of them have. For example, the
factors of an SVD must be unitary, and their product must equal the product of the CPU's factors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.testing._comparison import default_tolerances

from tests.conformance.samples import Sample
from tests.conformance.tolerances import Tolerance

Close = Callable[..., str]
Checker = Callable[[Sequence[Any], dict[str, Any], list[Any], list[Any], Close], str]


def differs(got: Sequence[Any], expected: Sequence[Any], close: Close | None) -> str:
    """Return the first difference between two lists of results, or "" if there is none.

    If `close` is None, tensors may have different values.
    """
    if len(got) != len(expected):
        return f"{len(got)} results, expected {len(expected)}"
    for position, (one, other) in enumerate(zip(got, expected, strict=True)):
        if difference := _leaf(one, other, position, close):
            return difference if len(got) == 1 else f"result {position}: {difference}"
    return ""


def rebuilt(
    name: str, sample: Sample, got: Sequence[Any], expected: Sequence[Any], tolerance: Tolerance
) -> str | None:
    """Check the results of an operator that has several correct results, such as an SVD.

    Return the first error, or "" if they are correct. Return None if the operator has only one
    correct result.
    """
    checker = _CHECKERS.get(name)
    # If the `M` argument is given, the operator subtracts it. The difference is not low-rank, so
    # its low-rank approximation is random.
    if checker is None or sample.kwargs.get("M") is not None:
        return None
    difference = differs(got, expected, None)
    return difference or checker(
        sample.args, sample.kwargs, list(got), list(expected), partial(_near, tolerance)
    )


def tied(
    name: str, sample: Sample, got: Sequence[Any], expected: Sequence[Any], tolerance: Tolerance
) -> str | None:
    """Compare the gradients of an operator that may select any one of several equal elements.

    Only the sum of the gradients over equal elements is well-defined. Return the difference, "" if
    there is none, or None for any other operator.
    """
    if name not in _DIMENSIONS or len(got) != 1 or not _alike(got[0], expected[0]):
        return None
    source, position = sample.args[0].detach(), _DIMENSIONS[name]
    dim = sample.kwargs.get("dim", sample.args[position] if len(sample.args) > position else -1)
    sums = [
        _sums(source, gradient, 0 if name == "msort" else dim) for gradient in (got[0], expected[0])
    ]
    return _near(tolerance, *(s.to(expected[0].dtype) for s in sums))


def _sums(source: torch.Tensor, gradient: torch.Tensor, dim: int) -> torch.Tensor:
    """For each distinct value along a dimension, return the sum of its elements' gradients."""
    if not source.numel():
        return gradient.double()
    last = source.movedim(dim, -1) if source.dim() else source.reshape(1)
    lines = last.reshape(-1, last.shape[-1])
    gradients = (gradient.movedim(dim, -1) if source.dim() else gradient).reshape(lines.shape)
    sums = []
    for line, along in zip(lines, gradients.double(), strict=True):
        values, places = line.unique(return_inverse=True)
        sums.append(along.new_zeros(len(values)).index_add(0, places, along))
    return torch.cat(sums)


def closeness(tolerance: Tolerance, exact: Callable[[], Sequence[Any] | None]) -> Close:
    """Return a function that compares values.

    If values differ, that function calls `exact` for results in double precision. It then allows
    an error up to the tolerance plus twice the CPU's largest error in the same tensor.
    """

    def close(one: torch.Tensor, other: torch.Tensor, position: int) -> str:
        difference = _near(tolerance, one, other)
        if not difference or not (other.is_floating_point() or other.is_complex()):
            return difference
        known = exact()
        if known is None or position >= len(known) or not _alike(known[position], other):
            return difference
        true = known[position].to(_DOUBLE[other.is_complex()])
        relative, absolute = tolerance.of(other.dtype)
        size = true.abs()
        if tolerance.normwise:
            size = size.nan_to_num(0, 0, 0).max().expand_as(size)
        unit = absolute + relative * size
        worst = ((other.to(true.dtype) - true).abs() / unit).nan_to_num(0, 0, 0).max()
        off = (one.to(true.dtype) - true).abs() / unit
        same = torch.isclose(one, other, rtol=relative, atol=absolute, equal_nan=True)
        allowed = 1 + 2 * worst.clamp(max=_MOST.get(other.dtype, 1000))
        return "" if bool((same | (off <= allowed)).all()) else difference

    return close


def _alike(one: Any, other: torch.Tensor) -> bool:
    return isinstance(one, torch.Tensor) and one.shape == other.shape


def _near(tolerance: Tolerance, one: torch.Tensor, other: torch.Tensor, slack: float = 1.0) -> str:
    relative, absolute = tolerance.of(other.dtype)
    try:
        torch.testing.assert_close(
            one,
            other,
            rtol=relative * slack,
            atol=absolute * slack,
            equal_nan=True,
            check_stride=False,
        )
    except AssertionError as error:
        return " ".join(str(error).split())[:250]
    return ""


def _leaf(one: Any, other: Any, position: int, close: Close | None) -> str:
    if not isinstance(other, torch.Tensor):
        return "" if one == other or (one != one and other != other) else f"{one}, not {other}"
    if not isinstance(one, torch.Tensor):
        return f"{type(one).__name__}, expected a tensor"
    if one.dtype != other.dtype:
        return f"{one.dtype}, expected {other.dtype}"
    if one.shape != other.shape:
        return f"shape {tuple(one.shape)}, expected {tuple(other.shape)}"
    return close(one, other, position) if close else ""


def _picks(position: int, *, indices_only: bool = False) -> Checker:
    """Return a checker that compares the elements selected by indices, not the indices themselves.

    Equal elements may therefore be in any order. `position` is the index of the `dim` argument,
    which defaults to -1.
    """

    def check(
        args: Sequence[Any], kwargs: dict[str, Any], actual: Any, expected: Any, close: Close
    ) -> str:
        if not indices_only and (difference := close(actual[0], expected[0])):
            return difference
        if len(actual) == 1 and not indices_only:
            return ""  # The median of a whole tensor has no indices to compare.
        dim = kwargs.get("dim", args[position] if len(args) > position else -1)
        source, indices, expected_indices = (
            t if t.dim() else t.reshape(1) for t in (args[0], actual[-1], expected[-1])
        )
        if indices.dim() < source.dim():
            indices, expected_indices = indices.unsqueeze(dim), expected_indices.unsqueeze(dim)
        if (
            indices.numel()
            and not 0 <= int(indices.min()) <= int(indices.max()) < source.shape[dim]
        ):
            return "indices are out of range"
        return close(source.gather(dim, indices), source.gather(dim, expected_indices))

    return check


def _svd(
    args: Sequence[Any], kwargs: dict[str, Any], actual: Any, expected: Any, close: Close
) -> str:
    u, s, v = actual
    if difference := close(s, expected[1], slack=10):
        return f"singular values: {difference}"
    k = s.shape[-1]
    actual_product = u[..., :k] * s.unsqueeze(-2) @ v[..., :k, :]
    expected_product = expected[0][..., :k] * s.unsqueeze(-2) @ expected[2][..., :k, :]
    return (
        close(actual_product, expected_product, slack=20)
        or _unitary(u, close)
        or _unitary(v.mH, close)
    )


def _old_svd(
    args: Sequence[Any], kwargs: dict[str, Any], actual: Any, expected: Any, close: Close
) -> str:
    # With compute_uv=False, torch returns zeros for U and V.
    if not expected[0].abs().sum() and not expected[2].abs().sum():
        return close(actual[1], expected[1], slack=10)
    actual, expected = (
        [actual[0], actual[1], actual[2].mH],
        [expected[0], expected[1], expected[2].mH],
    )
    return _svd(args, kwargs, actual, expected, close)


def _qr(
    args: Sequence[Any], kwargs: dict[str, Any], actual: Any, expected: Any, close: Close
) -> str:
    q, r = actual
    if q.numel() == 0 and expected[0].numel() == 0:  # With mode="r", Q is empty.
        return close(r.abs(), expected[1].abs(), slack=20)
    upper = close(r, r.triu())
    return upper or close(q @ r, expected[0] @ expected[1], slack=20) or _unitary(q, close)


def _eigh(
    args: Sequence[Any], kwargs: dict[str, Any], actual: Any, expected: Any, close: Close
) -> str:
    values, vectors = actual
    if difference := close(values, expected[0], slack=20):
        return f"eigenvalues: {difference}"
    actual_product = vectors * values.unsqueeze(-2) @ vectors.mH
    expected_product = expected[1] * expected[0].unsqueeze(-2) @ expected[1].mH
    return close(actual_product, expected_product, slack=20) or _unitary(vectors, close)


def _eig(
    args: Sequence[Any], kwargs: dict[str, Any], actual: Any, expected: Any, close: Close
) -> str:
    values, vectors = actual
    if difference := _spectrum(args, kwargs, [values], [expected[0]], close):
        return difference
    return close(args[0].to(vectors.dtype) @ vectors, vectors * values.unsqueeze(-2), slack=50)


def _spectrum(
    args: Sequence[Any], kwargs: dict[str, Any], actual: Any, expected: Any, close: Close
) -> str:
    """Compare eigenvalues regardless of their order."""
    distances = (actual[0].unsqueeze(-1) - expected[0].unsqueeze(-2)).abs()
    if distances.numel() == 0:
        return ""
    scale = 50 * default_tolerances(actual[0].dtype)[0] * (1 + expected[0].abs().max())
    worst = torch.maximum(distances.amin(-1).max(), distances.amin(-2).max())
    return "" if worst <= scale else f"eigenvalues are {worst:.3g} off"


def _unitary(q: torch.Tensor, close: Close) -> str:
    if q.numel() == 0:
        return ""
    if q.shape[-1] > q.shape[-2]:
        q = q.mH
    identity = torch.eye(q.shape[-1], dtype=q.dtype).expand(*q.shape[:-2], -1, -1)
    difference = close(q.mH @ q, identity, slack=20)
    return f"not unitary: {difference}" if difference else ""


def _low_rank(
    args: Sequence[Any], kwargs: dict[str, Any], actual: Any, expected: Any, close: Close
) -> str:
    u, s, v = actual
    product = (expected[0] * expected[1].unsqueeze(-2)) @ expected[2].mH
    return (
        close((u * s.unsqueeze(-2)) @ v.mH, product, slack=50)
        or _unitary(u, close)
        or _unitary(v, close)
    )


# The CPU's own error widens the tolerance, but at most by this factor (1000 for other dtypes).
_MOST = {torch.bfloat16: 10, torch.float16: 10}

_DOUBLE = {False: torch.float64, True: torch.complex128}

# The operators that `tied` compares, with the position of their argument `dim`.
_DIMENSIONS = {"sort": 1, "msort": 1, "topk": 2, "kthvalue": 2, "mode": 1}

_CHECKERS: dict[str, Checker] = {
    "argsort": _picks(1, indices_only=True),
    "sort": _picks(1),
    "topk": _picks(2),
    "kthvalue": _picks(2),
    "mode": _picks(1),
    "median": _picks(1),
    "nanmedian": _picks(1),
    "linalg.svd": _svd,
    "svd": _old_svd,
    "linalg.qr": _qr,
    "qr": _qr,
    "linalg.eigh": _eigh,
    "linalg.eig": _eig,
    "linalg.eigvals": _spectrum,
    "svd_lowrank": _low_rank,
    "pca_lowrank": _low_rank,
}
