# SPDX-License-Identifier: Apache-2.0
"""Benchmark of the `tpu` device with tensor sizes that change from step to step."""
