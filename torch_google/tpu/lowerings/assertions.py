# SPDX-License-Identifier: Apache-2.0
"""Assertions on values, which are no-ops except in debug mode (value_checks.py)."""

from __future__ import annotations

from jax import Array

from torch_google.tpu.lowerings.table import lowering


@lowering("aten::_assert_async", "aten::_assert_async.msg")
def assert_async(self: Array, message: str = "") -> tuple[()]:
    return ()


@lowering("aten::_functional_assert_async.msg")
def functional_assert_async(self: Array, message: str, token: Array) -> Array:
    return token
