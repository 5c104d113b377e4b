# SPDX-License-Identifier: Apache-2.0
"""Benchmarks, which are run by hand; no other code depends on them."""
