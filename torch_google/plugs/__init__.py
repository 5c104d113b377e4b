# SPDX-License-Identifier: Apache-2.0
"""Implementations of torch's hooks for torch_google.plug: one module per module of torch/_seam."""
