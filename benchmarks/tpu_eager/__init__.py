# SPDX-License-Identifier: Apache-2.0
"""Benchmark that compares the `tpu` device with torch, JAX and torchax on several models."""
