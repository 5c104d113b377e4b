# SPDX-License-Identifier: Apache-2.0
"""Implementations of the hooks that torch/_seam declares, in modules of the same names.

torch_google.entry_points installs the hooks.
"""
