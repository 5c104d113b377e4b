# SPDX-License-Identifier: Apache-2.0
"""Test importing an extension that needs another wheel's library, both in a PAR and in runfiles."""

from __future__ import annotations

import _par
import par_test_needy


def test_the_other_wheels_library_is_loaded() -> None:
    assert par_test_needy.value() == 42
    assert _par.is_loaded("libpar_test_needed.so.1")


def test_a_library_that_nothing_has_loaded() -> None:
    assert not _par.is_loaded("libpar_test_lazy.so")
