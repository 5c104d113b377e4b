# SPDX-License-Identifier: Apache-2.0
"""Tests that span several packages. A package's own tests are next to its code."""
