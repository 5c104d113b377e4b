# SPDX-License-Identifier: Apache-2.0
"""Operators composed of other operators, for which torch's decompositions are slow or missing."""

from torch_google.tpu.composites.composite_table import register

__all__ = ["register"]
