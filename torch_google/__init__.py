# SPDX-License-Identifier: Apache-2.0
"""What a monorepo adds to PyTorch, for everyone. Importing this starts no device and loads no JAX."""
