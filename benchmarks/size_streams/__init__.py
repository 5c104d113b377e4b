# SPDX-License-Identifier: Apache-2.0
"""Benchmark of the device tpu with tensor sizes that change from step to step."""
