# SPDX-License-Identifier: Apache-2.0
"""Benchmark of the overhead that torch_google's libraries add to plain Python and torch."""
