# SPDX-License-Identifier: Apache-2.0
"""Benchmark of the start-up cost of one program, packaged in six ways."""
