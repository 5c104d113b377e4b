# SPDX-License-Identifier: Apache-2.0
"""Tests that start real PARs under adverse conditions."""
