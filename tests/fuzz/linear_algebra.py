# SPDX-License-Identifier: Apache-2.0
"""Templates for matmuls, and for decompositions of small, well-conditioned matrices."""

from __future__ import annotations

from tests.fuzz.template import (
    Operator,
    has_dims,
    is_filled,
    is_finite,
    is_matrix,
    is_real,
    is_single,
    row,
)

_MATRIX = (is_single, is_matrix, is_finite, is_filled)
_SMALL = "{x}.clamp(-2, 2)"
# A positive definite matrix whose eigenvalues are all at least 8.
_DEFINITE = f"({_SMALL} @ {_SMALL}.mT + 8 * torch.eye(len({{x}}), device=device))"


def _matrix(template: str) -> Operator:
    text = template.replace("DEFINITE", _DEFINITE).replace("SMALL", _SMALL)
    return row(text, _MATRIX, rounds=True)


LINEAR_ALGEBRA = [
    _matrix("{out} = torch.linalg.inv(DEFINITE)"),
    _matrix("{out} = torch.linalg.det(DEFINITE / 8)"),
    _matrix("{out} = torch.linalg.slogdet(DEFINITE).logabsdet"),
    _matrix("{out} = torch.linalg.solve(DEFINITE, SMALL)"),
    _matrix("{out} = torch.linalg.cholesky(DEFINITE)"),
    _matrix("{out} = torch.linalg.cholesky(DEFINITE, upper=True)"),
    _matrix("{out} = torch.cholesky_solve(SMALL, torch.linalg.cholesky(DEFINITE))"),
    _matrix("{out} = torch.linalg.qr(DEFINITE).R.abs()"),
    _matrix("q, r = torch.linalg.qr(DEFINITE); {out} = q @ r; del q, r"),
    _matrix("{out} = torch.linalg.svdvals(SMALL)"),
    _matrix(
        "u, s, v = torch.linalg.svd(SMALL, full_matrices=False); {out} = u * s @ v; del u, s, v"
    ),
    _matrix("{out} = torch.linalg.eigvalsh(DEFINITE)"),
    _matrix("{out} = torch.linalg.matrix_norm(SMALL)"),
    _matrix("{out} = torch.linalg.vector_norm(SMALL, 3, dim=<dim>)"),
    _matrix("{out} = torch.linalg.matrix_power(DEFINITE / 8, 3)"),
    _matrix("{out} = torch.linalg.pinv(DEFINITE)"),
    _matrix("{out} = torch.linalg.matrix_exp(DEFINITE / 32)"),
    _matrix("{out} = torch.linalg.solve_triangular(DEFINITE.tril(), SMALL, upper=False)"),
    _matrix("{out} = torch.linalg.lstsq(DEFINITE, SMALL).solution"),
    _matrix("{out} = torch.addmm({x}, DEFINITE, {x}, beta=0.5, alpha=2)"),
    _matrix("{out} = torch.baddbmm({x}[None], DEFINITE[None], {x}[None])"),
    _matrix("{out} = torch.addmv({x}[:, 0], DEFINITE, {x}[:, 0])"),
    row("{out} = torch.bmm({x}[None], {x}.mT[None])", (is_single, is_matrix)),
    row("{out} = torch.kron({x}[:2, :2], {x}[:2, :2])", (is_single, is_matrix)),
    row("{out} = {x}.trace()", (is_real, is_matrix)),
    row("{out} = torch.tensordot({x}, {x}, dims=([0], [0]))", (is_single, has_dims(1))),
    row("{out} = torch.einsum('ij,ik->jk', {x}, {x})", (is_single, is_matrix)),
    row("{out} = torch.einsum('ij->j', {x})", (is_real, is_matrix)),
    row("{out} = torch.einsum('ij,ij->', {x}, {x})", (is_single, is_matrix)),
    row("{out} = torch.einsum('...i,...i->...', {x}, {y})", (is_single, has_dims(1)), (is_single,)),
    row(
        "{out} = torch.einsum('ii->i', {x}[:2, :2])",
        (is_single, lambda x: min(x.shape[:2]) > 1 if x.dim() == 2 else False),
    ),
    row("{out} = {x} @ {y}", (is_real, has_dims(1)), (is_real, has_dims(1))),
    row(
        "{out} = torch.cross({x}, {x}.flip(-1), dim=-1)",
        (is_single, lambda x: x.shape[-1:] == (3,)),
    ),
    row(
        "{out} = torch.addbmm({x}, {x}[None], {x}.mT[None] @ {x})",
        (is_single, is_matrix),
        rounds=True,
    ),
    row("{out} = torch.vander({x}, N=3)", (is_real, lambda x: x.dim() == 1)),
    row("{out} = torch.block_diag({x}, {x})", (is_real, is_matrix)),
    row("{out} = torch.cartesian_prod({x}[:2], {x}[:2])", (is_real, lambda x: x.dim() == 1)),
    row(
        "{out} = torch.fft.ifft(torch.fft.fft({x}, dim=<dim>), dim=<dim>)",
        (is_single, has_dims(1), is_filled, is_finite),
        rounds=True,
    ),
    row(
        "{out} = torch.fft.rfft({x}, dim=<dim>).abs()",
        (is_single, has_dims(1), is_filled, is_finite),
        rounds=True,
    ),
]
