# SPDX-License-Identifier: Apache-2.0
"""Benchmark of the overhead of torch_google's libraries over plain Python and torch."""
