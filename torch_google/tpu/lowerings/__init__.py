# SPDX-License-Identifier: Apache-2.0
"""What each operator of torch is in JAX: one module for each family of operators."""

from torch_google.tpu.lowerings.table import Lowering, find, lowering, name_of, names

__all__ = ["Lowering", "find", "lowering", "name_of", "names"]
