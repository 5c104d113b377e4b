# SPDX-License-Identifier: Apache-2.0
"""Implementations of the hooks in torch/_seam, one module here for each module there.

torch_google.entry_points installs them.
"""
