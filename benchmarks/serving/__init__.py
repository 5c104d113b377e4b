# SPDX-License-Identifier: Apache-2.0
"""Benchmark that compares torch_google/serving with LitServe's own server; see README.md."""
