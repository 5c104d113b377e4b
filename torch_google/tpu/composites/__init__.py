# SPDX-License-Identifier: Apache-2.0
"""Operators that are several of the device's: what torch would cut too small, or cannot cut."""

from torch_google.tpu.composites.composite_table import register

__all__ = ["register"]
