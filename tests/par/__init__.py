# SPDX-License-Identifier: Apache-2.0
"""Tests of PyTorch, NumPy and JAX inside a PAR."""
