# SPDX-License-Identifier: Apache-2.0
"""Benchmark that compares the device tpu with torch, JAX and torchax on several models."""
