# SPDX-License-Identifier: Apache-2.0
"""Tests of the torch_google wheel as users install it."""
