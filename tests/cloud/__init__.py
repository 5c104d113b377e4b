# SPDX-License-Identifier: Apache-2.0
"""Tests of paths in stores, against real servers on loopback."""
