# SPDX-License-Identifier: Apache-2.0
"""Test that libtpu's aborts and errors become outcomes, and do not stop later programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from tests.aot.compiling import compile_programs
from tests.aot.rows import Outcome
from tests.aot.store import Store


@pytest.fixture(autouse=True)
def _bits() -> Iterator[None]:
    """Enable JAX's 64-bit types, as the device does."""
    with jax.enable_x64(True):
        yield


def lowered(function: Callable[[jax.Array], object], dtype: str) -> str:
    """Lower a function of one matrix for a TPU, and return the program's text."""
    traced = jax.jit(function).trace(jax.ShapeDtypeStruct((4, 4), dtype))
    return str(traced.lower(lowering_platforms=("tpu",)).as_text())


@pytest.mark.parametrize("chip", ["v5e", "v6e"])
def test_every_outcome_is_stored_and_no_program_is_lost(chip: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    # With 64-bit types enabled, JAX's SVD uses 64-bit indices, which make libtpu abort.
    programs = [
        lowered(jnp.sin, "float32"),
        lowered(jnp.linalg.svd, "float32"),
        lowered(jnp.linalg.inv, "float64"),
        lowered(jnp.linalg.eigh, "float32"),
    ]
    digests = [store.put(program) for program in programs]
    results = list(compile_programs(digests, store, chip))
    assert [result.outcome for result in results] == [
        Outcome.COMPILED,
        Outcome.ABORTED,
        Outcome.FAILED,
        Outcome.COMPILED,
    ]
    assert results[1].message == "the process ended with SIGABRT"
    assert "LuDecomposition" in results[2].message
    assert store.compilations(chip) == {result.digest: result for result in results}


def test_known_outcomes_are_not_compiled_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    digest = store.put(lowered(jnp.sin, "float32"))
    (result,) = compile_programs([digest], store, "v5e")
    store.program(digest).unlink()
    assert list(compile_programs([digest], store, "v5e")) == [result]
