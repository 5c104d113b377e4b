# SPDX-License-Identifier: Apache-2.0
"""Tests that cross rooms; a room's own tests stand beside its code."""
