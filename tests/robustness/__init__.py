# SPDX-License-Identifier: Apache-2.0
"""Tests of real PARs in hostile environments."""
