# SPDX-License-Identifier: Apache-2.0

import pytest
import torch
from scipy import special as exact

from torch_google.tpu.lowerings import bessel, orthogonal_polynomials, special_functions  # noqa: F401 (registers)
from torch_google.tpu.lowerings.against_cpu import check, lowered, to_tensor

aten = torch.ops.aten
INF, NAN = float("inf"), float("nan")

TIGHT = 1e-7
LOOSE = 2e-6  # torch's own Bessel functions have this error between 5 and 7

ANYWHERE = [
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "i0",
    "lgamma",
    "special_bessel_j0",
    "special_bessel_j1",
    "special_entr",
    "special_erfcx",
    "special_i0e",
    "special_i1",
    "special_i1e",
    "special_log_ndtr",
    "special_modified_bessel_i0",
    "special_modified_bessel_i1",
    "special_ndtri",
    "special_spherical_bessel_j0",
]
POSITIVE = [
    "special_bessel_y0",
    "special_bessel_y1",
    "special_modified_bessel_k0",
    "special_modified_bessel_k1",
    "special_scaled_modified_bessel_k0",
    "special_scaled_modified_bessel_k1",
]


@pytest.mark.parametrize("name", ANYWHERE)
def test_on_the_line(name: str) -> None:
    op = getattr(aten, name).default
    x = torch.cat([torch.linspace(-9.3, 9.7, 67, dtype=torch.float64), torch.tensor([0.0, -0.0])])
    close = LOOSE if "bessel" in name else TIGHT
    check(op, x, rtol=close, atol=close)
    check(op, x.float(), rtol=1e-4, atol=2e-5)
    check(op, torch.tensor([NAN, 0.5]))
    check(op, torch.tensor([1, 2, 3]))
    check(op, torch.zeros(0))


@pytest.mark.parametrize("name", POSITIVE)
def test_on_the_positive_line(name: str) -> None:
    op = getattr(aten, name).default
    x = torch.linspace(0.05, 40, 97, dtype=torch.float64)
    check(op, x, rtol=LOOSE, atol=LOOSE)
    check(op, x.float(), rtol=1e-4, atol=1e-5)
    check(op, torch.tensor([0.0, -1.0, NAN]))


def test_bessel_far_away() -> None:
    x = torch.tensor([8.0, 50.0, 1000.0, -30.0], dtype=torch.float64)
    check(aten.special_bessel_j0.default, x, rtol=LOOSE, atol=LOOSE)
    check(aten.special_bessel_j1.default, x, rtol=LOOSE, atol=LOOSE)


def test_airy() -> None:
    x = torch.linspace(-12, 12, 97, dtype=torch.float64)
    check(aten.special_airy_ai.default, x, rtol=2e-5, atol=2e-6)
    check(aten.special_airy_ai.default, x.float(), rtol=1e-4, atol=1e-5)


EXACT = {
    aten.special_bessel_j0: exact.j0,
    aten.special_bessel_j1: exact.j1,
    aten.special_bessel_y0: exact.y0,
    aten.special_bessel_y1: exact.y1,
    aten.special_modified_bessel_k0: exact.k0,
    aten.special_modified_bessel_k1: exact.k1,
    aten.special_airy_ai: lambda x: exact.airy(x)[0],
}


@pytest.mark.parametrize("op", list(EXACT), ids=str)
def test_against_scipy(op: torch._ops.OpOverloadPacket) -> None:
    x = torch.linspace(1e-3, 60, 1999, dtype=torch.float64)
    if op is aten.special_airy_ai:
        x = x - 30
    actual = to_tensor(lowered(op.default, x)[0])
    torch.testing.assert_close(
        actual, torch.from_numpy(EXACT[op](x.numpy())), rtol=1e-9, atol=1e-11
    )


def test_poles() -> None:
    x = torch.tensor([0.0, -0.0, -1.0, -2.0, INF, -INF, NAN])
    check(aten.digamma.default, x)
    check(aten.lgamma.default, x)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5])
def test_polygamma(n: int) -> None:
    x = torch.linspace(-4.7, 6.3, 41, dtype=torch.float64)
    check(aten.polygamma.default, n, x, rtol=1e-6, atol=1e-8)


def test_polygamma_where_terms_cancel() -> None:
    x = torch.tensor([-8.5, -3.5, -20.5])
    exact = torch.polygamma(4, x.double()).float()
    check(torch.ops.aten.polygamma.default, 4, x, rtol=1e-5, atol=0, expect=lambda *_: exact)


def test_factors_of_polygamma_are_exact() -> None:
    x = torch.linspace(0.3, 6.3, 41)
    check(aten.polygamma.default, 6, x, rtol=1e-6, atol=0.0)


def test_zeta() -> None:
    x = torch.tensor([[2.0], [3.0], [1.0], [0.5], [4.5], [NAN]], dtype=torch.float64)
    q = torch.tensor([0.3, 1.0, 5.5, 0.0, -1.0, -2.5, 100.0], dtype=torch.float64)
    check(aten.special_zeta.default, x, q, rtol=1e-7, atol=1e-9)
    check(aten.special_zeta.self_scalar, 2.0, q, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("op", [aten.igamma, aten.igammac], ids=str)
def test_incomplete_gamma(op: torch._ops.OpOverloadPacket) -> None:
    values = torch.tensor([0.0, 0.3, 1.0, 5.0, 40.0, INF, -1.0, NAN], dtype=torch.float64)
    check(op.default, values.reshape(-1, 1), values, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", sorted(orthogonal_polynomials._FAMILIES))
def test_polynomials(name: str) -> None:
    packet = getattr(aten, f"special_{name}")
    x = torch.tensor([-1.0, -0.7, 0.0, 0.3, 1.0], dtype=torch.float64).reshape(-1, 1)
    n = torch.tensor([-1.0, 0.0, 1.0, 2.0, 5.0, 11.0], dtype=torch.float64)
    check(packet.default, x, n, rtol=1e-6, atol=1e-8)
    check(packet.n_scalar, x, 4, rtol=1e-6, atol=1e-8)
    check(packet.x_scalar, 0.4, n, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("name", "lowest", "highest"),
    [("erf", -1, 1), ("erfc", 0, 2), ("special_i0e", 0, 1), ("special_log_ndtr", -INF, 0)],
)
def test_results_stay_within_the_range_of_the_function(
    name: str, lowest: float, highest: float
) -> None:
    x = torch.linspace(-10, 10, (1 << 16) + 1)
    (values,) = lowered(getattr(aten, name).default, x)
    assert lowest <= float(values.min()) <= float(values.max()) <= highest
