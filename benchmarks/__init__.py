# SPDX-License-Identifier: Apache-2.0
"""Benchmarks, which are run by hand; nothing depends on them."""
