# SPDX-License-Identifier: Apache-2.0
"""Suites that run on every device that torch's test framework finds: the CPU and tpu."""
