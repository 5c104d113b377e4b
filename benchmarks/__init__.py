# SPDX-License-Identifier: Apache-2.0
"""Benchmarks, run by hand. No other code depends on them."""
