# SPDX-License-Identifier: Apache-2.0
"""Tests that start real PARs in bad conditions."""
