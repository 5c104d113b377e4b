# SPDX-License-Identifier: Apache-2.0
"""Compare the tpu device with torch, JAX and other programs on several models."""
