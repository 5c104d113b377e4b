# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PT009 - torch's own TestCase compares tensors, even in nested structures
"""Test a shard of the operators in op_db, on every device that torch's framework finds."""

from __future__ import annotations

import itertools
import unittest
from collections.abc import Callable
from typing import Any

import torch
from torch.testing._internal.common_device_type import OpDTypes, ops
from torch.testing._internal.common_methods_invocations import op_db, python_ref_db
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.opinfo.core import SpectralFuncInfo, SpectralFuncType
from torch.utils import _pytree as pytree

from tests.fbcode.devices import known
from tests.fbcode.sample import sampled

_OPERATORS = sampled(op_db, shards=128)
_REFERENCES = sampled(python_ref_db, shards=64)
_WITH_OUT = sampled([op for op in op_db if op.supports_out], shards=128)
_SAMPLES = 2
# The tolerance for tpu, where XLA may reorder sums and fuse multiplications with additions.
_APART = {"rtol": 1e-4, "atol": 1e-4}
# The tolerance for NumPy and SciPy, which sum in a different order and may be less or more precise
# near poles.
_NUMPY = {"rtol": 1e-4, "atol": 1e-5}
# Decompositions that are random, or unique only up to rotation. This suite skips them on tpu;
# tests/conformance checks properties such as the product of the factors.
_NOT_UNIQUE = {
    "linalg.eig",
    "linalg.eigh",
    "linalg.eigvals",
    "linalg.qr",
    "linalg.svd",
    "pca_lowrank",
    "qr",
    "svd",
    "svd_lowrank",
}
# The dtypes that each device does not support, such as complex32, which JAX lacks.
_NOT_ON = {"tpu": {torch.complex32}}


class TestOperators(TestCase):
    @ops(_OPERATORS, allowed_dtypes=(torch.float32, torch.int64))
    def test_agrees_with_the_reference(self, device: str, dtype: torch.dtype, op: Any) -> None:
        """Compare the CPU's results with those of NumPy (op_db's `ref`).

        Compare every other device's results with the CPU's.
        """
        here = torch.device(device).type
        for sample in _samples(op, device, dtype):
            if here != "cpu":
                if op.name in _NOT_UNIQUE:
                    self.skipTest("its result is not unique")
                _skip_what_draws(op)
                _skip_what_varies(op, sample)
                expected = _call(op, _moved(sample, "cpu"))
                self.assertEqual(_moved(_call(op, sample), "cpu"), expected, **_APART)
            elif op.ref is None:
                self.skipTest("op_db has no NumPy function for it")
            else:
                exact = dtype.is_floating_point
                self.compare_with_reference(op, _in_numpy(op), sample, exact_dtype=exact, **_NUMPY)

    @ops(_OPERATORS, dtypes=OpDTypes.none)
    def test_takes_the_dtypes_that_it_declares(self, device: str, op: Any) -> None:
        refused = {}
        here = torch.device(device).type
        for dtype in op.supported_dtypes(here) - _NOT_ON.get(here, set()):
            try:
                for sample in _samples(op, device, dtype)[:1]:
                    _call(op, sample)
            except Exception as error:  # noqa: BLE001 - after any error, the dtype does not work
                refused[str(dtype)] = f"{type(error).__name__}: {error}".splitlines()[0]
        self.assertEqual(refused, {})

    @ops(_WITH_OUT, allowed_dtypes=(torch.float32,))
    def test_writes_where_it_is_told(self, device: str, dtype: torch.dtype, op: Any) -> None:
        for sample in _samples(op, device, dtype):
            _skip_what_varies(op, sample)
            expected = _call(op, sample)
            if not all(isinstance(leaf, torch.Tensor) for leaf in pytree.tree_leaves(expected)):
                self.skipTest("its result has no tensors")
            zeros = pytree.tree_map(torch.zeros_like, expected)
            empty = pytree.tree_map(lambda leaf: leaf.new_empty(0), expected)
            for out in (zeros, empty):
                result = _call(op, sample, out=out)
                self.assertEqual(out, expected)
                if result is None:
                    continue  # some return only the tensor they write to
                for one, other in zip(*map(pytree.tree_leaves, (result, out)), strict=True):
                    self.assertIs(one, other)

    @ops(_OPERATORS, allowed_dtypes=(torch.float32,))
    def test_takes_tensors_that_do_not_lie_in_order(
        self, device: str, dtype: torch.dtype, op: Any
    ) -> None:
        for sample in _samples(op, device, dtype):
            _skip_what_varies(op, sample)
            self.assertEqual(_call(op, sample.noncontiguous()), _call(op, sample), **_APART)


class TestReferences(TestCase):
    @ops(_REFERENCES, allowed_dtypes=(torch.float32,))
    def test_python_agrees_with_the_operator(
        self, device: str, dtype: torch.dtype, op: Any
    ) -> None:
        for sample in _samples(op, device, dtype):
            _skip_what_draws(op.torch_opinfo)
            _skip_what_varies(op.torch_opinfo, sample)
            self.assertEqual(_call(op, sample), _call(op.torch_opinfo, sample), **_APART)


def _samples(op: Any, device: str, dtype: torch.dtype) -> list[Any]:
    torch.manual_seed(0)
    samples = list(itertools.islice(op.sample_inputs(device, dtype), _SAMPLES))
    if not samples:
        raise unittest.SkipTest("op_db has no sample of it")
    return samples


def _in_numpy(op: Any) -> Callable[..., Any]:
    """Return an operator's NumPy reference, wrapped to accept torch's argument names."""
    if not isinstance(op, SpectralFuncInfo):
        return op.ref
    dims = "axis" if op.ndimensional is SpectralFuncType.OneD else "axes"

    def call(*args: Any, **kwargs: Any) -> Any:
        named = {dims if name == "dim" else name: value for name, value in kwargs.items()}
        return op.ref(*args, **named)

    return call


def _call(op: Any, sample: Any, **more: Any) -> Any:
    with torch.no_grad():
        return op(sample.input, *sample.args, **{**sample.kwargs, **more})


def _skip_what_varies(op: Any, sample: Any) -> None:
    """Skip operators with random or uninitialized results, which may differ between two calls."""
    if "empty" in op.name or op.name in {"resize_", "resize_as_"}:
        raise unittest.SkipTest("its result is uninitialized memory")
    results = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        results.append(_call(op, _moved(sample, "cpu")))
    try:
        torch.testing.assert_close(results[0], results[1], rtol=0, atol=0, equal_nan=True)
    except (AssertionError, TypeError):
        raise unittest.SkipTest("its result is random") from None


def _skip_what_draws(op: Any) -> None:
    """Skip random operators, because the same seed gives different numbers on different devices."""
    code = getattr(op.op, "__code__", None)
    if code is not None and "wrapper_set_seed" in code.co_names:
        raise unittest.SkipTest("its result is random")


def _moved(structure: Any, device: str) -> Any:
    """Move the tensors in a structure to `device`, and replace arguments that name a device."""
    if type(structure).__name__ == "SampleInput":
        parts = (structure.input, structure.args, structure.kwargs)
        first, args, kwargs = pytree.tree_map(lambda leaf: _leaf(leaf, device), parts)
        return type(structure)(first, args=args, kwargs=kwargs)
    return pytree.tree_map(lambda leaf: _leaf(leaf, device), structure)


def _leaf(leaf: Any, device: str) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.detach().to(device)
    named = isinstance(leaf, str) and leaf.startswith("tpu")
    return device if named or isinstance(leaf, torch.device) else leaf


known.instantiate(TestOperators, globals())
known.instantiate(TestReferences, globals())
