# SPDX-License-Identifier: Apache-2.0
"""Operators built from other operators, because torch's decomposition is slow or missing."""

from torch_google.tpu.composites.composite_table import register

__all__ = ["register"]
