# SPDX-License-Identifier: Apache-2.0
"""What PyTorch, NumPy and JAX do inside a PAR."""
