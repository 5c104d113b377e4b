# SPDX-License-Identifier: Apache-2.0
"""Implementations of the hooks in torch/_seam, in modules with the same names.

torch_google.entry_points installs the hooks.
"""
