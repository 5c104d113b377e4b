# SPDX-License-Identifier: Apache-2.0
"""Operators that a TPU rejects raise an error that names them, or fall back to the CPU."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import pytest
import torch

from torch_google.tpu import _C


@pytest.fixture(autouse=True)
def _programs_are_lowered_for_a_tpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lower each new program for a TPU as well, although it runs on the test's platform."""
    lower = jax.stages.Traced.lower

    def for_both(traced: jax.stages.Traced) -> jax.stages.Lowered:
        lower(traced, lowering_platforms=("tpu",))
        return lower(traced)

    _C.clear_programs()
    monkeypatch.setattr(jax.stages.Traced, "lower", for_both)
    yield
    _C.clear_programs()


REJECTED: dict[str, tuple[torch.dtype, Callable[[torch.Tensor], Any]]] = {
    "aten::linalg_inv_ex": (torch.float64, torch.linalg.inv_ex),
    "aten::_linalg_solve_ex": (torch.float64, lambda a: torch.linalg.solve(a, a)),
    "aten::_linalg_det": (torch.float64, torch.linalg.det),
    "aten::linalg_lu_factor_ex": (torch.float64, torch.linalg.lu_factor),
    "aten::linalg_matrix_exp": (torch.float64, torch.linalg.matrix_exp),
    "aten::linalg_eig": (torch.float32, torch.linalg.eig),
    "aten::_linalg_eigvals": (torch.float32, torch.linalg.eigvals),
}


@pytest.mark.parametrize("name", REJECTED)
def test_an_error_names_the_operator_the_dtype_and_the_fallback(name: str) -> None:
    dtype, function = REJECTED[name]
    a = torch.eye(3, dtype=dtype) * 2 + torch.ones(3, 3, dtype=dtype)
    with pytest.raises(NotImplementedError, match=re.escape(name)) as caught:
        function(a.to("tpu"))
    kind = str(dtype).removeprefix("torch.")
    assert f"a TPU has no {name} of {kind}: " in str(caught.value)
    assert str(caught.value).count("torch.tpu.cpu_fallback()") == 1

    with torch.tpu.cpu_fallback(), pytest.warns(UserWarning, match=name):
        results = function(a.to("tpu"))
    torch.testing.assert_close(_on_cpu(results), _on_cpu(function(a)))
    assert torch.tpu.metrics().fallbacks[name] == 1


def test_float32_is_not_rejected() -> None:
    a = torch.eye(3, device="tpu")
    for name, (dtype, function) in REJECTED.items():
        if dtype == torch.float64:
            function(a)
            assert name not in torch.tpu.metrics().fallbacks


def _on_cpu(results: Any) -> list[torch.Tensor]:
    return [t.cpu() for t in ([results] if isinstance(results, torch.Tensor) else results)]
