# SPDX-License-Identifier: Apache-2.0
"""Benchmark of the tpu device and other ways to run libraries' models; see README.md."""
