# SPDX-License-Identifier: Apache-2.0
"""Implementations of torch's hooks, one module per module of torch/_seam, for torch_google.plug."""
