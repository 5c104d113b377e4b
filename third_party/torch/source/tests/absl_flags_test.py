# SPDX-License-Identifier: Apache-2.0
"""In a Python program, torch's C++ flags are Abseil flags, which `_absl` can set."""

from __future__ import annotations

import _absl
import pytest
import torch


def test_a_flag_of_cpp_is_abseils() -> None:
    flags = _absl.flags()
    assert flags["c10_torch_jit_disable_cat"] == "false"
    assert flags["c10_torch_lazy_metrics_percentiles"].startswith("0.01:")
    assert "c10_minloglevel" not in flags  # Abseil defines --minloglevel.


def test_what_is_set_is_what_cpp_reads() -> None:
    """Set the flag that enables symbolic shapes of lazy tensors, and read it through torch."""
    lazy = torch._C._lazy
    assert not lazy._get_symbolic_shape_mode()
    _absl.set_flag("c10_ltc_enable_symbolic_shapes", "true")
    try:
        assert lazy._get_symbolic_shape_mode()
    finally:
        _absl.set_flag("c10_ltc_enable_symbolic_shapes", "false")
    assert not lazy._get_symbolic_shape_mode()


def test_a_flag_that_is_not_there_is_named() -> None:
    with pytest.raises(LookupError, match="'c10_no_such'"):
        _absl.set_flag("c10_no_such", "1")
