# SPDX-License-Identifier: Apache-2.0
"""Test whether two samplers draw from the same distribution, to compare random operators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

RUNS = 48

# The tolerated deviation of a mean, in standard errors. A correct sampler exceeds it for about one
# element in 10^9.
_SIGMAS = 6.0

# The smallest positive normal float32. XLA flushes numbers of smaller magnitude to zero.
_SMALLEST = 2.0**-126


def differs(draws: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> str:
    """Return the difference between two samplers' distributions, or "" if they agree.

    `draws` and `expected` contain RUNS draws each.
    """
    actual = np.stack([_numbers(draw) for draw in draws])
    reference = np.stack([_numbers(draw) for draw in expected])
    if actual.shape != reference.shape:
        return f"shape {actual.shape[1:]}, expected {reference.shape[1:]}"
    if not actual.size:
        return ""
    if not np.array_equal(np.isfinite(actual).all(0), np.isfinite(reference).all(0)):
        return "other elements are finite"
    finite = np.isfinite(actual).all(0)
    actual, reference = actual[:, finite], reference[:, finite]
    spread = np.sqrt((actual.var(0) + reference.var(0)) / RUNS)
    scale = np.maximum(np.abs(reference).max(initial=0.0), 1.0)
    off = np.abs(actual.mean(0) - reference.mean(0)) - _SIGMAS * spread - 1e-2 * scale / RUNS
    if (off > 0).any():
        worst = int(off.argmax())
        return f"mean {actual.mean(0)[worst]:.4g}, expected {reference.mean(0)[worst]:.4g}"
    constant = (reference.std(0) == 0) & (actual.std(0) > 1e-3 * scale)
    if constant.any() and constant.mean() > 0.5:
        return "draws differ, expected equal draws"
    if (reference.std(0) > 1e-3 * scale).any() and not (actual.std(0) > 0).any():
        return "all draws are equal"
    return _ranks(actual.ravel(), reference.ravel())


def _ranks(actual: np.ndarray, reference: np.ndarray) -> str:
    """Compare two empirical distributions with a Kolmogorov-Smirnov test.

    Values that differ only by rounding, such as a constant computed on two devices, count as equal.
    """
    actual, reference = np.sort(actual), np.sort(reference)
    near = max(1e-5 * float(np.abs(reference).max()), _SMALLEST)
    distance = np.concatenate([_ahead(actual, reference, near), _ahead(reference, actual, near)])
    # The elements of one draw may be correlated; only those of separate runs are independent.
    bound = 2.2 * np.sqrt(2 / max(RUNS, actual.size / 8))
    if distance.max(initial=0.0) > bound:
        return f"distributions are {distance.max():.3f} apart, at most {bound:.3f} expected"
    return ""


def _ahead(one: np.ndarray, other: np.ndarray, near: float) -> np.ndarray:
    """Return how far the empirical CDF of `one` exceeds that of `other`, at each value.

    Values of `other` that are larger by at most `near` count as equal.
    """
    levels = np.arange(1, one.size + 1) / one.size
    return levels - np.searchsorted(other, one + near, side="right") / other.size


def _numbers(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    return tensor.to(torch.float64).numpy().ravel()
