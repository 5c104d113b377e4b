# SPDX-License-Identifier: Apache-2.0
"""Tests of store paths against real servers on loopback."""
