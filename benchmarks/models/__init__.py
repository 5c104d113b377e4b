# SPDX-License-Identifier: Apache-2.0
"""Benchmark of libraries' models on the tpu device, compared with other programs; see README.md."""
